# SPDX-License-Identifier: Apache-2.0

"""Putting instances onto their nodes, rebuilding them, and taking them off again."""
