# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet``: what an operator of Nova does to a fleet of nodes as a whole.

Everything about how it starts and ends is :mod:`ironic_virt.cmd.shell`'s; commands are found
in the entry point namespace ``ironic_virt.fleet_cli``.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import util
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from cliff import lister

from ironic_virt import exceptions
from ironic_virt.cmd import output, shell
from ironic_virt.cmd.commands import Row, argument
from ironic_virt.exit_codes import FleetExitCode

if TYPE_CHECKING:
    from oslo_config import cfg

    from ironic_virt.fleet.options import ServiceOptions
    from ironic_virt.fleet.plans.apply import Report
    from ironic_virt.fleet.plans.plan import Plan
    from ironic_virt.fleet.reading import Reader


T = TypeVar("T")


class NovaMissing(exceptions.IronicVirtError):
    """The command runs where Nova is not installed."""


def _is_nova_installed() -> bool:
    # Our own door to Nova's loader makes "import nova" succeed without Nova.
    return util.find_spec("nova") is not None and util.find_spec("nova.conf") is not None


def flag(name: str, text: str, **more: Any) -> Row:
    """An option without a value."""
    return argument(name, action="store_true", help=text, **more)


def several(name: str, dest: str, metavar: str, text: str, **more: Any) -> Row:
    """An option that may be given several times."""
    more |= {"action": "append", "dest": dest, "default": [], "metavar": metavar}
    return argument(name, help=f"{text}; as often as wanted.", **more)


class Fleet(shell.Shell):
    """The application of an operator of Nova."""

    NAME = "ironic-virt-fleet"
    DESCRIPTION = "Look after the bare metal nodes of a Nova deployment."
    COMMAND_NAMESPACE = "ironic_virt.fleet_cli"
    FINDS = True
    REFUSED = FleetExitCode.FAILED

    def add_config_option(self, parser: argparse.ArgumentParser) -> None:
        """Add the option that names Nova's files."""
        several(
            *("--config-file", "config_files", "FILE"),
            "Nova's file with the cell databases, [ironic] and [placement], as nova-manage reads "
            "it; the last one counts (default: /etc/nova/nova.conf)",
        )(parser)
        several(
            *("--config-dir", "config_dirs", "DIR"),
            "A directory of such files, read after --config-file",
        )(parser)


class Progress:
    """Says on a stream how far a long work is: on a terminal in place, else a line at times.

    :param clock: a monotonic clock in seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._is_terminal = stream.isatty()
        self._pause = 0.2 if self._is_terminal else 10.0
        self._said_at = clock()
        self._is_open = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """Say it, unless that was done a moment ago."""
        now = self._clock()
        if now - self._said_at < self._pause and not (self._is_open and done >= total):
            return
        self._said_at = now
        line = f"{what}: {done:,} of {total:,}"
        if not self._is_terminal:
            self._stream.write(line + "\n")
            return
        self._is_open = done < total
        self._stream.write(f"\r{line:<60}" + ("" if self._is_open else "\n"))
        self._stream.flush()


DRY_RUN = flag("--dry-run", "Look at everything, show what would be done, and change nothing.")
HOSTS_TO_CHANGE: Sequence[Row] = (
    argument("hosts", metavar="<host>", nargs="+", help="The host of a nova-compute service."),
    DRY_RUN,
)


class FleetCommand(output.Columns, lister.Lister):
    """A command that reads a deployment and prints a table."""

    takes: Sequence[Row] = (
        several("--cell", "cells", "<name>", "Only this cell, by name or UUID (default: all)"),
        several(
            *("--service-conf", "service_files", "<host>=<file>"),
            "A configuration file of the nova-compute of a host, or a directory of such, for its "
            "options; in the order in which the service reads them",
        ),
        several(
            *("--serves", "served", "<host>=<shard>[:<group>]"),
            "Instead of a file: the shard and the conductor group that a host serves",
        ),
    )

    @functools.cached_property
    def conf(self) -> cfg.ConfigOpts:
        """Nova's configuration, opened; a process can't open it again.

        :raises NovaMissing: Nova is not installed here.
        """
        if not _is_nova_installed():
            raise NovaMissing("Nova is not installed here; run this where nova-manage runs")
        from ironic_virt.fleet import nova_conf

        return nova_conf.load(self.app.options.config_files, self.app.options.config_dirs)

    def service_options(self, parsed_args: argparse.Namespace) -> dict[str, ServiceOptions]:
        """What is said of services, by their files or by hand, by host."""
        from ironic_virt.fleet import options

        files: dict[str, list[str]] = {}
        for text in parsed_args.service_files:
            host, equals, path = text.partition("=")
            if not (host and equals and path):
                self.refuse(f"--service-conf {text}: this is not <host>=<file>")
            files.setdefault(host, []).append(path)
        found = {host: options.read(host, paths) for host, paths in files.items()}
        for text in parsed_args.served:
            try:
                service = options.serves(text)
            except ValueError as exc:
                self.refuse(f"argument --serves: {exc}")
            found[service.host] = service
        return found

    def reader(self, parsed_args: argparse.Namespace, assumed: Plan | None = None) -> Reader:
        """What reads the deployment.

        :param assumed: a plan that says of its services what no file says here.
        """
        options = self.service_options(parsed_args)
        if assumed is not None:
            options = {**assumed.options, **options}
        conf = self.conf
        from ironic_virt.fleet.reading import Reader

        return Reader(conf, cells=parsed_args.cells, options=options, progress=self.progress())

    def progress(self) -> Callable[[str, int, int], None]:
        """What says how far it is; nothing under ``--quiet``."""
        if self.app.options.verbose_level == 0:
            return lambda what, done, total: None
        return Progress(self.app.stderr)

    def say(self, line: str) -> None:
        """A line for people, beside the table."""
        if self.app.options.verbose_level > 0:
            self.app.stderr.write(line + "\n")

    def collected(
        self, reports: Iterable[Report[T]], kind: Callable[[T], str], about: str = ""
    ) -> list[Report[T]]:
        """What a run reports; says at its end what became of it, and sets the exit code.

        :param kind: what a thing is, in the plural.
        """
        found: list[Report[T]] = []
        try:
            for report in reports:
                found.append(report)
        except BaseException:
            self.say("It was cut off. Start the command again to go on")
            raise
        finally:
            self._sum_up(found, kind, about)
        return found

    def _sum_up(self, reports: Sequence[Report[T]], kind: Callable[[T], str], about: str) -> None:
        from ironic_virt.fleet.plans.apply import Outcome

        kinds: dict[str, Counter[Outcome]] = {}
        for report in reports:
            kinds.setdefault(kind(report.change), Counter())[report.outcome] += 1
        for what, counts in kinds.items():
            words = ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts.items())
            self.say(f"{about}{counts.total():,} {what}: {words}")
        if not reports:
            self.say(f"{about}nothing to do")
        waiting = Counter(one.reason for one in reports if one.outcome is Outcome.WAITS)
        for reason, count in waiting.most_common():
            self.say(f"{about}{count:,} wait: {reason}")
        outcomes = {report.outcome for report in reports}
        if Outcome.FAILED in outcomes:
            self.code = FleetExitCode.FAILED
        elif outcomes & {Outcome.WAITS, Outcome.REFUSED}:
            self.code = self.code or FleetExitCode.FOUND


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ironic-virt-fleet`` with ``argv``, the process's own by default."""
    return shell.run(Fleet, argv)


if __name__ == "__main__":
    sys.exit(main())
