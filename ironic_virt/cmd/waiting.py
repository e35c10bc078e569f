# SPDX-License-Identifier: Apache-2.0

"""Commands that send requests for servers, and ``--wait`` with its progress."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output, server_view
from ironic_virt.cmd.commands import SERVER, Row, argument, flag, row
from ironic_virt.cmd.configured import Configured, Each
from ironic_virt.compute.verbs import BY_NAME

if TYPE_CHECKING:
    from ironic_virt.compute.api import Outcome, Requests
    from ironic_virt.compute.db.records import Instance


_DOWN = "Compute service %s is down: the request starts when it is up again"


def waiting(verb: str) -> Sequence[Row]:
    """``--wait`` and ``--timeout``, for a command that may wait until a verb is done."""
    return (
        flag("--wait", f"Wait until {BY_NAME[verb].until}, and show progress."),
        argument(
            "--timeout SECONDS",
            "With --wait: how long at most (default: no limit).",
            needs="wait",
        ),
    )


class Asking(Configured):
    """A command that sends a request for servers, and may wait for it.

    :cvar verb: a row of :mod:`ironic_virt.compute.verbs`.
    """

    verb: str
    codes = "0 requested, or with --wait: done; 1 refused or failed; 2 wrong arguments"

    @functools.cached_property
    def requests(self) -> Requests:
        """What asks."""
        from ironic_virt.compute.api import Requests

        return Requests(self.conf, self.db)

    def follow(self, requests: Sequence[Instance], args: argparse.Namespace) -> list[Instance]:
        """With ``--wait``, wait until all requests have ended, and log those that failed.

        :returns: the instances as they are then, one for each request.
        :raises RequestTimeout: it took too long.
        """
        if not args.wait:
            for host in self.requests.down(requests):
                self.app.LOG.warning(_DOWN, host)
            return list(requests)
        outcomes = self._outcomes(requests, args.timeout)
        for outcome in outcomes:
            if outcome.error is not None:
                self.fail(f"Server {outcome.instance.name}: {outcome.error}")
        return [outcome.instance for outcome in outcomes]

    def _outcomes(self, requests: Sequence[Instance], timeout: float | None) -> Sequence[Outcome]:
        for host in self.requests.down(requests):
            self.say(_DOWN % host)
        subject = requests[0].name if len(requests) == 1 else f"{len(requests)} servers"
        self.say(f"{BY_NAME[self.verb].doing} {subject} ...")
        began, shown = time.monotonic(), dict[str, str]()

        def show(server: Instance, state: str) -> None:
            if shown.get(server.uuid) != state:
                shown[server.uuid] = state
                self.say(f"  {server.name}: {state}, {time.monotonic() - began:.1f} s")

        def changed(server: Instance) -> None:
            if server.task_state is not None:
                show(server, server_view.progress(server) or "waiting")

        def ended(outcome: Outcome) -> None:
            server, error = outcome.instance, outcome.error
            place = f" on {self.requests.node_name(server.node)}" if server.node else ""
            show(server, f"failed ({error})" if error else f"{server.vm_state}{place}")

        try:
            return self.requests.wait(requests, changed, ended, timeout=timeout)
        except KeyboardInterrupt:
            self.say(
                "Stopped waiting; the request continues. 'ironic-virt server show' follows it"
            )
            raise


class _Ask(Asking, Each):
    """A command that sends a request for each of several servers, as far as possible."""

    def act(self, args: argparse.Namespace) -> None:
        self.verb = getattr(args, "verb", None) or self.verb
        self.more = {"hard": True} if getattr(args, "hard", False) else {}
        self.asked: list[Instance] = []
        super().act(args)
        if self.asked:
            self.follow(self.asked, args)

    def do(self, name: str) -> None:
        self.asked.append(self.requests.ask(self.verb, name, **self.more))


class AskOne(Asking, output.ShowOne):
    """A command that sends a request for a server, and shows the server."""

    columns = server_view.SHOW_COLUMNS
    takes: Sequence[Row] = (SERVER,)

    def values(self, args: argparse.Namespace) -> dict[str, Any]:
        """The verb's arguments."""
        return {}

    def act(self, args: argparse.Namespace) -> Any:
        request = self.requests.ask(self.verb, args.server, **self.values(args))
        (server,) = self.follow([request], args)
        return server


def ask(verb: str, text: str, *takes: Row) -> type[_Ask]:
    """Make the command of a verb for one server or several."""
    servers = argument("names <server>", "Name or ID of a server; may be repeated.", nargs="+")
    return row(_Ask, text, servers, *takes, *waiting(verb), verb=verb)


def ask_one(verb: str, text: str, *takes: Row, **members: Any) -> type[AskOne]:
    """Make the command of a verb for one server.

    :param members: ``values``, if the verb takes any, and ``examples``.
    """
    return row(AskOne, text, *takes, *waiting(verb), verb=verb, **members)
