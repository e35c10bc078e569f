# SPDX-License-Identifier: Apache-2.0

"""Test support that is shipped: a fake Ironic and a launcher for the real one."""
