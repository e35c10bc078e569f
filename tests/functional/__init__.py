# SPDX-License-Identifier: Apache-2.0

"""Tests of the fake Ironic and of the driver on it, over HTTP."""
