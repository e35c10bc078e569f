# SPDX-License-Identifier: Apache-2.0

"""``--wait``: what becomes of requests, with their progress on standard error."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from ironic_virt.cmd import arguments, progress

if TYPE_CHECKING:
    from ironic_virt.compute.api import Outcome, Request, Requests
    from ironic_virt.compute.db.records import Instance


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
    names = {one.instance.uuid: (one.instance.name, one.instance.node or "") for one in asked}
    if quiet:
        return requests.wait(asked, timeout=timeout)
    display = progress.Display(stream, pictures=progress.takes_pictures(stream, os.environ))
    for host in requests.down(asked):
        display.note(
            f"Compute service {host} is down: what it has to do begins when it is up again"
        )
    try:
        with display.watch(title, names) as tracks:

            def told(instance: Instance) -> None:
                if instance.task_state is not None:
                    step, detail = instance.progress_step or "waiting", instance.progress_detail
                    tracks.report(instance.uuid, step, detail or "", where=instance.node)

            def ended(outcome: Outcome) -> None:
                if outcome.error is None:
                    tracks.finish(outcome.instance.uuid, outcome.instance.vm_state)
                else:
                    tracks.fail(outcome.instance.uuid, outcome.error)

            return requests.wait(asked, told, ended, timeout=timeout)
    except KeyboardInterrupt:
        display.note("Not waiting any longer; what was asked for still holds")
        raise
