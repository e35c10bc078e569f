# SPDX-License-Identifier: Apache-2.0

"""Which of several processes of one host name may change anything.

Loaded only if ``[ironic] standby_backend_url`` is set.
"""

from ironic_virt.standby.backend import Look, ToozLock, age, from_conf, look
from ironic_virt.standby.lease import Lease
from ironic_virt.standby.note import Note
from ironic_virt.standby.timing import Timing

__all__ = ["Lease", "Look", "Note", "Timing", "ToozLock", "age", "from_conf", "look"]
