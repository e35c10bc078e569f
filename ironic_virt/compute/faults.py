# SPDX-License-Identifier: Apache-2.0

"""From a driver's errors to what the records keep of them."""

from __future__ import annotations

from ironic_virt import exceptions
from ironic_virt.compute.db.records import FaultReport

OUT_OF_REACH = (
    exceptions.IronicUnreachable,
    exceptions.IronicUnavailable,
    exceptions.IronicUnauthorized,
    exceptions.UnexpectedAnswer,
)
"""Errors that say nothing of the instance or its node: Ironic could not be asked."""


def one_line(error: BaseException) -> str:
    """What an error says, for a record: one line, and never empty.

    Ours are written for people; anything else needs at least its kind.
    """
    text = " ".join(str(error).split())
    if isinstance(error, exceptions.IronicVirtError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def fault(error: BaseException, message: str | None = None) -> FaultReport:
    """What to write down of an error.

    :param message: more than what it says itself.
    """
    noted = "\n".join(getattr(error, "__notes__", ()))
    return FaultReport(message or one_line(error), details=noted or None)
