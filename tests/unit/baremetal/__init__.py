# SPDX-License-Identifier: Apache-2.0

"""Tests of Ironic's API as typed data."""
