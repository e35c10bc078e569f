# SPDX-License-Identifier: Apache-2.0

"""The exit codes of the commands and of the compute service, one list for all.

Only ``ironic-virt-status upgrade check`` has others: those of oslo.upgradecheck.
"""

from __future__ import annotations

import enum
import textwrap


class ExitCode(enum.IntEnum):
    """An exit code.

    :ivar meaning: what it means, in words that follow the number.
    """

    meaning: str

    def __new__(cls, number: int, meaning: str) -> ExitCode:
        """A number with its meaning."""
        made = int.__new__(cls, number)
        made._value_, made.meaning = number, meaning
        return made

    DONE = 0, "it worked, or was told to end"
    FAILED = 1, "it was tried and failed; standard error says why"
    REFUSED = 2, "the command line or the configuration is wrong"
    SUPERSEDED = 3, "another service has this host name; don't start it again"
    LEASE_LOST = 4, "the lease is lost; start it again, as a standby"
    FOUND = 5, "it was done, and it found something or left something over"
    INTERRUPTED = 130, "SIGINT"
    PIPE_CLOSED = 141, "whoever read its output went away"
    TERMINATED = 143, "SIGTERM, the second one in a service"


_SERVICE = {ExitCode.SUPERSEDED, ExitCode.LEASE_LOST, ExitCode.TERMINATED}


def epilog(*, service: bool = False, finds: bool = False) -> str:
    """What the end of a command's help says of its exit codes.

    :param service: it is a service.
    :param finds: it may find something.
    """
    left_out = {ExitCode.PIPE_CLOSED} if service else set(_SERVICE)
    if not finds:
        left_out.add(ExitCode.FOUND)
    listed = [f"{code:d} {code.meaning}" for code in ExitCode if code not in left_out]
    return textwrap.fill(f"Exit codes: {'; '.join(listed)}.", 79)
