# SPDX-License-Identifier: Apache-2.0

"""What a service offers and how it reserves a node when Ironic picks the nodes."""
