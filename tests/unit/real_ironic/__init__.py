# SPDX-License-Identifier: Apache-2.0

"""Tests of the parts of the real Ironic launcher that need no Ironic."""
