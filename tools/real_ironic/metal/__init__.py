# SPDX-License-Identifier: Apache-2.0

"""A machine with a virtual BMC, deployed by the real Ironic through the real agent.

The machine is QEMU's, without KVM.  It needs root and packages of Debian's: see
:func:`missing`.  All of it runs in its own namespaces, made by
:func:`namespaces_command`, so nothing is changed on the host and nothing outlives it.
"""

from tools.real_ironic.metal.host import missing, namespaces_command
from tools.real_ironic.metal.images import Images, ensure_images
from tools.real_ironic.metal.lab import ADDRESS, MACHINE_ADDRESS, Lab
from tools.real_ironic.metal.machine import Machine

__all__ = [
    "ADDRESS",
    "MACHINE_ADDRESS",
    "Images",
    "Lab",
    "Machine",
    "ensure_images",
    "missing",
    "namespaces_command",
]
