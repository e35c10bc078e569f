# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-compute`` with a fault of :mod:`tests.simulation.planted`, for chaos to find."""

import contextlib
import os
from collections.abc import Sequence

from ironic_virt.cmd import compute
from tests.functional.compute.processes import ComputeProcess

VARIABLE = "IRONIC_VIRT_CHAOS_PLANTED"
"""Names the fault to the processes of services."""


class Service(ComputeProcess):
    """A service, with the fault that is named if one is."""

    @property
    def module(self) -> str:
        """What is run."""
        return __name__ if VARIABLE in os.environ else super().module


def main(argv: Sequence[str]) -> int:
    """Be the service."""
    from tests.simulation.planted import FAULTS

    (fault,) = (one for one in FAULTS if one.name == os.environ[VARIABLE])
    with contextlib.ExitStack() as stack:
        fault.plant(stack)
        return compute.main(argv)
