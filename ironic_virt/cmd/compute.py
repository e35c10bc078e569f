# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-compute``: the reference compute service, until it is told to end.

This module only keeps the process alive when it gets SIGHUP while the rest is being imported,
which takes up to a second: :mod:`ironic_virt.cmd.compute_service` does everything else.  So
nothing but the standard library is imported here at first.

Exit codes are those of :mod:`ironic_virt.exit_codes`; a second signal ends it at once.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from types import FrameType


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ironic-virt-compute``.

    :param argv: its arguments; those of the process by default.
    :returns: the exit code.
    """
    hangups: list[int] = []

    def note(signum: int, _frame: FrameType | None) -> None:
        hangups.append(signum)

    before = signal.signal(signal.SIGHUP, note)
    try:
        from ironic_virt.cmd import compute_service

        return compute_service.main(argv, lambda: bool(hangups))
    finally:
        signal.signal(signal.SIGHUP, before)


if __name__ == "__main__":
    sys.exit(main())
