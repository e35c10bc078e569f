# SPDX-License-Identifier: Apache-2.0

"""Nodes that boot over the network, on the real Ironic."""
