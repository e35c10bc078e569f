# SPDX-License-Identifier: Apache-2.0

"""Tests with input that nobody foresaw: ``make fuzz`` runs more of them."""
