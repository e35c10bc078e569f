# SPDX-License-Identifier: Apache-2.0

"""What chaos does, and whether it is mended."""
