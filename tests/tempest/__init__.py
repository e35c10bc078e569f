# SPDX-License-Identifier: Apache-2.0

"""OpenStack's own API tests, run against the fake Ironic or the real one."""
