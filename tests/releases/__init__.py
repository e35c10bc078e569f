# SPDX-License-Identifier: Apache-2.0

"""Our wheel in each release of OpenStack that it works with: ``make releases``."""
