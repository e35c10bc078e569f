# SPDX-License-Identifier: Apache-2.0

"""Which free node an instance gets: host states, filters, weighers.

Records of compute nodes come in, the best of those that fit goes out.  Nothing
here knows HTTP, a database or a driver.
"""
