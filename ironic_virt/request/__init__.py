# SPDX-License-Identifier: Apache-2.0

"""What an instance asks of a node: the flavor, its extra specs and what the image needs."""
