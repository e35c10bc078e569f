# SPDX-License-Identifier: Apache-2.0

"""Which nodes are this host's; knows nothing of instances' life cycle."""
