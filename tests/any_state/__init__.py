# SPDX-License-Identifier: Apache-2.0

"""From any state: every combination of what Ironic, Nova and Placement say of one node."""

import os

# Nova's test support patches threads unless this is set before its first import.
os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")
