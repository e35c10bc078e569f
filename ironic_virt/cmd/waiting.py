# SPDX-License-Identifier: Apache-2.0

"""``--wait``: what becomes of requests, with their progress on standard error."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ironic_virt.cmd import arguments, progress
from ironic_virt.cmd.configured import Configured
from ironic_virt.compute.verbs import BY_NAME

if TYPE_CHECKING:
    from ironic_virt.compute.api import Outcome, Request, Requests
    from ironic_virt.compute.db import Database
    from ironic_virt.compute.db.records import Instance


_DOWN = "Compute service %s is down: what it has to do begins when it is up again"

_CODES = """\
exit codes:
  0 requested, or with --wait: done; 1 refused or failed; 2 wrong arguments
"""


class Asking(Configured):
    """A command that asks for something of servers, and may wait for it.

    :cvar verb: a row of :mod:`ironic_virt.compute.verbs`.
    """

    verb: str

    def get_epilog(self) -> str:
        """Return the examples, and the exit codes."""
        return f"{self.epilog}\n{_CODES}".lstrip()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's arguments."""
        parser = super().get_parser(prog_name)
        until = BY_NAME[self.verb].until
        parser.add_argument(
            "--wait", action="store_true", help=f"Wait until {until}, and show progress meanwhile."
        )
        parser.add_argument(
            "--timeout",
            type=arguments.seconds,
            metavar="SECONDS",
            help="With --wait: how long at most (default: as long as it takes).",
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        if parsed_args.timeout is not None and not parsed_args.wait:
            self.refuse("argument --timeout: it goes with --wait")
        return super().run(parsed_args)

    @contextlib.contextmanager
    def requests(self, parsed_args: argparse.Namespace) -> Iterator[tuple[Requests, Database]]:
        """What asks, and the records."""
        with self.configured(parsed_args) as (conf, database):
            from ironic_virt.compute.api import Requests

            yield Requests(conf, database), database

    def follow(
        self, requests: Requests, asked: Sequence[Request], parsed_args: argparse.Namespace
    ) -> list[Instance]:
        """With ``--wait``, wait until all that was asked for has ended, and tell what has failed.

        :returns: the instances as they are then, one for each request.
        :raises RequestTimeout: it took too long.
        """
        if not parsed_args.wait:
            for host in requests.down(asked):
                self.app.LOG.warning(_DOWN, host)
            return [one.instance for one in asked]
        outcomes = self._outcomes(requests, asked, parsed_args.timeout)
        for outcome in outcomes:
            if outcome.error is not None:
                self.fail(f"Server {outcome.instance.name}: {outcome.error}")
        return [outcome.instance for outcome in outcomes]

    def _outcomes(
        self, requests: Requests, asked: Sequence[Request], timeout: float | None
    ) -> Sequence[Outcome]:
        if self.app.options.verbose_level == 0:
            return requests.wait(asked, timeout=timeout)
        stream = self.app.stderr
        display = progress.Display(stream, pictures=progress.takes_pictures(stream, os.environ))
        for host in requests.down(asked):
            display.note(_DOWN % host)
        what = asked[0].instance.name if len(asked) == 1 else f"{len(asked)} servers"
        name_of = functools.cache(lambda node: node and requests.node_name(node))
        names = {
            one.instance.uuid: (one.instance.name, name_of(one.instance.node) or "")
            for one in asked
        }
        try:
            with display.watch(f"{BY_NAME[self.verb].doing} {what}", names) as tracks:

                def told(instance: Instance) -> None:
                    if instance.task_state is not None:
                        step, detail = (
                            instance.progress_step or "waiting",
                            instance.progress_detail,
                        )
                        tracks.report(
                            instance.uuid, step, detail or "", where=name_of(instance.node)
                        )

                def ended(outcome: Outcome) -> None:
                    if outcome.error is None:
                        tracks.finish(outcome.instance.uuid, outcome.instance.vm_state)
                    else:
                        tracks.fail(outcome.instance.uuid, outcome.error)

                return requests.wait(asked, told, ended, timeout=timeout)
        except KeyboardInterrupt:
            display.note("Not waiting any longer; what was asked for still holds")
            raise
