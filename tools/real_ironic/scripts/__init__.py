# SPDX-License-Identifier: Apache-2.0

"""Programs that run in their own process, two of them with Ironic's Python.

They import nothing of ``ironic_virt``, because it is not installed there.
"""

from pathlib import Path

SCRIPTS = Path(__file__).parent
