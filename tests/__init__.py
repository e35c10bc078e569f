# SPDX-License-Identifier: Apache-2.0

"""The tests: unit, functional, conformance and integration, a package each."""
