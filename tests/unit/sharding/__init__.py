# SPDX-License-Identifier: Apache-2.0

"""Tests: which host owns which nodes."""
