# SPDX-License-Identifier: Apache-2.0

"""What nova-compute imports: ``[DEFAULT] compute_driver = ironic_virt.IronicDriver``.

Nova loads its driver from ``nova.virt``.  ``ironic_virt_nova.pth``, which is installed next to
the packages, adds a finder that serves this module under the name ``nova.virt.ironic_virt``,
wherever Nova is installed.  It comes last, so a package of that name in Nova would win.
"""

from ironic_virt.nova.driver import IronicDriver

__all__ = ["IronicDriver"]
