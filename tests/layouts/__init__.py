# SPDX-License-Identifier: Apache-2.0

"""Whether Nova finds the driver wherever the two are installed: ``make layouts``."""
