# SPDX-License-Identifier: Apache-2.0

"""Tests: which process is active."""
