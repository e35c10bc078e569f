# SPDX-License-Identifier: Apache-2.0

"""Measurements of this package against what it replaces: ``python -m benchmarks``.

Nothing here is installed with the package.
"""
