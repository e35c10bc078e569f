# SPDX-License-Identifier: Apache-2.0

"""Each verb of Nova's API, asked of a server in each state, with both drivers.

Nova's test support patches threads unless a variable is set before its first import.
"""

import os

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")
