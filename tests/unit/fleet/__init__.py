# SPDX-License-Identifier: Apache-2.0

"""Tests of the fleet tools' decisions, which need no Nova."""
