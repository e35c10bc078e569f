# SPDX-License-Identifier: Apache-2.0

"""Tests of one module at a time; no sockets, no waiting."""
