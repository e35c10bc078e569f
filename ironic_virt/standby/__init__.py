# SPDX-License-Identifier: Apache-2.0

"""Which of several processes of one host name may change anything.

Loaded only if ``[ironic] standby_backend_url`` is set.
"""

from ironic_virt.standby.backend import ToozLock, look_at_lease
from ironic_virt.standby.lease import Lease
from ironic_virt.standby.note import Look, Note
from ironic_virt.standby.timing import Timing, boottime

__all__ = ["Lease", "Look", "Note", "Timing", "ToozLock", "boottime", "look_at_lease"]
