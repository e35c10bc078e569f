# SPDX-License-Identifier: Apache-2.0

"""Tests of how the lane of releases counts."""
