# SPDX-License-Identifier: Apache-2.0

"""The driver in the real Nova, on the real Ironic."""
