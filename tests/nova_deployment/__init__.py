# SPDX-License-Identifier: Apache-2.0

"""The driver from its wheel in a whole Nova: a process for each service, as in production."""
