# SPDX-License-Identifier: Apache-2.0

"""What of the adapter needs no Nova."""
