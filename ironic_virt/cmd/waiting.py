# SPDX-License-Identifier: Apache-2.0

"""``--wait``: what becomes of requests, with their progress on standard error."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from ironic_virt import exceptions
from ironic_virt.cmd import arguments

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Instance
    from ironic_virt.compute.progress.display import Display
    from ironic_virt.compute.requests import Outcome, Request, Requests


def add_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--wait`` and ``--timeout``."""
    parser.add_argument(
        "--wait", action="store_true", help=f"Wait until {what}, and show progress meanwhile."
    )
    parser.add_argument(
        "--timeout",
        type=arguments.seconds,
        metavar="SECONDS",
        help="With --wait: how long at most (default: as long as it takes).",
    )


def wait(
    requests: Requests,
    asked: Sequence[Request],
    title: str,
    stream: TextIO,
    *,
    timeout: float | None = None,
    quiet: bool = False,
) -> list[Outcome]:
    """Wait until all that was asked for has ended.

    :param title: what is going on, for people.
    :param stream: where to show it.
    :param quiet: show nothing.
    :raises RequestTimeout: it took too long.
    """
    from ironic_virt.compute.progress.board import Board

    board = Board()
    display = None if quiet else _display(stream)
    board.begin({one.instance.uuid: (one.instance.name, one.instance.node or "") for one in asked})

    def told(instance: Instance) -> None:
        if instance.task_state is not None:
            step = instance.progress_step or "waiting"
            board.report(instance.uuid, step, instance.progress_detail or "", where=instance.node)

    def ended(outcome: Outcome) -> None:
        if outcome.error is None:
            board.finish(outcome.instance.uuid, outcome.instance.vm_state)
        else:
            board.fail(outcome.instance.uuid, outcome.error)

    with contextlib.ExitStack() as stack:
        if display is not None:
            for host in requests.down(asked):
                display.note(
                    f"Compute service {host} is down: what it has to do begins when it is up again"
                )
            stack.enter_context(display.watch(title, board))
        try:
            return requests.wait(asked, told, ended, timeout=timeout)
        except KeyboardInterrupt:
            stack.close()
            if display is not None:
                display.note("Not waiting any longer; what was asked for still holds")
            raise


def _display(stream: TextIO) -> Display:
    from ironic_virt.compute.progress import display

    try:
        return display.choose(stream, os.environ)
    except exceptions.ExtrasMissing:
        # A picture is a nicety; lines say the same.
        return display.PlainDisplay(stream)
