# SPDX-License-Identifier: Apache-2.0

"""Machines with virtual BMCs, deployed by the real Ironic through the real agent.

The machines are QEMU's, without KVM.  It needs root and packages of Debian's.  All of it runs in
its own namespaces, into which :func:`enter` leads, so nothing is changed on the host and nothing
outlives it.
"""

from tools.real_ironic.metal.entrance import enter
from tools.real_ironic.metal.lab import ADDRESS, GLANCE, Lab
from tools.real_ironic.metal.machine import Machine

__all__ = [
    "ADDRESS",
    "GLANCE",
    "Lab",
    "Machine",
    "enter",
]
