# SPDX-License-Identifier: Apache-2.0

"""Tests on the real Ironic, with MariaDB where much happens at once."""
