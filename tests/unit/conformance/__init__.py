# SPDX-License-Identifier: Apache-2.0

"""Tests of how the conformance checks compare."""
