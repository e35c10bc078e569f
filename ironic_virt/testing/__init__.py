# SPDX-License-Identifier: Apache-2.0

"""Test support that is shipped: a fake Ironic, a launcher for the real one, a fault proxy."""
