# SPDX-License-Identifier: Apache-2.0

"""Tests of what an instance asks of a node."""
