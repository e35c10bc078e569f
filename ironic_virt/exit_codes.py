# SPDX-License-Identifier: Apache-2.0

"""The exit codes of the commands and of the compute service, one list for all.

Commands that look for something have others, as such commands have elsewhere:
``ironic-virt-fleet`` has those of :class:`FleetExitCode`, and ``ironic-virt-status upgrade
check`` those of oslo.upgradecheck.
"""

from __future__ import annotations

import enum
import textwrap


class _Code(enum.IntEnum):
    meaning: str

    def __new__(cls, number: int, meaning: str) -> _Code:
        made = int.__new__(cls, number)
        made._value_, made.meaning = number, meaning
        return made


class ExitCode(_Code):
    """An exit code.

    :ivar meaning: what it means, in words that follow the number.
    """

    DONE = 0, "success"
    FAILED = 1, "it failed; standard error says why"
    REFUSED = 2, "the command line or the configuration is wrong"
    SUPERSEDED = 3, "another service has this host name; don't restart it"
    LEASE_LOST = 4, "the lease was lost; restart it as a standby"
    INTERRUPTED = 130, "SIGINT"
    PIPE_CLOSED = 141, "the program that read its output has ended"
    TERMINATED = 143, "SIGTERM, the second one in a service"


class FleetExitCode(_Code):
    """An exit code of ``ironic-virt-fleet``.

    :ivar meaning: what it means, in words that follow the number.
    """

    SOUND = 0, "success, and no findings"
    FAILED = 1, "it failed, or the command line is wrong"
    FOUND = 2, "completed, with findings or unfinished nodes"
    INTERRUPTED = 130, "SIGINT"


_SERVICE = {ExitCode.SUPERSEDED, ExitCode.LEASE_LOST, ExitCode.TERMINATED}


def epilog(*, service: bool = False, finds: bool = False) -> str:
    """What the end of a command's help says of its exit codes.

    :param service: it is a service.
    :param finds: it is ``ironic-virt-fleet``.
    """
    codes: list[_Code] = list(FleetExitCode) if finds else list(ExitCode)
    left_out = {ExitCode.PIPE_CLOSED} if service else _SERVICE
    listed = [f"{code:d} {code.meaning}" for code in codes if code not in left_out]
    return textwrap.fill(f"Exit codes: {'; '.join(listed)}.", 79)
