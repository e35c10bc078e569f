# SPDX-License-Identifier: Apache-2.0

"""What nova-compute imports: ``[DEFAULT] compute_driver = ironic_virt.IronicDriver``.

Nova loads its driver from ``nova.virt``.  ``ironic_virt_nova.pth``, which is installed beside
the packages, adds a finder that answers to the name ``nova.virt.ironic_virt`` alone, with this
module, wherever Nova lies; it comes last, so a package of Nova's own with that name goes before.
"""

from ironic_virt.nova.driver import IronicDriver

__all__ = ["IronicDriver"]
