# SPDX-License-Identifier: Apache-2.0

"""The checks, a module for each part of the API."""
