# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet``: what an operator of Nova does to a fleet of nodes as a whole.

:mod:`ironic_virt.cmd.shell` starts and ends it; commands are found in the entry point namespace
``ironic_virt.fleet_cli``.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib import util
from typing import TYPE_CHECKING, TextIO, TypeVar

from ironic_virt import exceptions
from ironic_virt.cmd import output, shell
from ironic_virt.cmd.commands import Row, argument, flag, several
from ironic_virt.exit_codes import FleetExitCode

if TYPE_CHECKING:
    from oslo_config import cfg

    from ironic_virt.fleet.options import ServiceOptions
    from ironic_virt.fleet.plans.apply import Report
    from ironic_virt.fleet.plans.plan import Plan
    from ironic_virt.fleet.reading import Reader

T = TypeVar("T")
_PAUSE = 5.0


class NovaMissing(exceptions.IronicVirtError):
    """Nova is not installed where the command runs."""


def _is_nova_installed() -> bool:
    # Our own door to Nova's loader makes "import nova" succeed without Nova.
    return util.find_spec("nova") is not None and util.find_spec("nova.conf") is not None


class Fleet(shell.Shell):
    """The application of an operator of Nova."""

    NAME = "ironic-virt-fleet"
    DESCRIPTION = "Check and reorganize the bare metal nodes of a Nova deployment."
    COMMAND_NAMESPACE = "ironic_virt.fleet_cli"
    FINDS = True
    REFUSED = FleetExitCode.FAILED
    CONFIG_FILES = (
        several(
            *("--config-file FILE", "config_files"),
            "Nova's file with the cell databases, [ironic] and [placement], as nova-manage reads "
            "it; the last one takes precedence; default: /etc/nova/nova.conf",
        ),
        several(
            *("--config-dir DIR", "config_dirs"),
            "A directory of such files, read after --config-file",
        ),
    )


class Progress:
    """Shows the progress of long work, a line every few seconds.

    :param clock: a monotonic clock in seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown_at = clock()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show it, unless that was done a moment ago."""
        if self._clock() - self._shown_at >= _PAUSE:
            self._shown_at = self._clock()
            self._stream.write(f"{what}: {done:,} of {total:,}\n")


DRY_RUN = flag("--dry-run", "Check everything and show what would be done; change nothing.")
HOSTS_TO_CHANGE: Sequence[Row] = (
    argument("hosts <host>", "The host of a nova-compute service.", nargs="+"),
    DRY_RUN,
)


class FleetCommand(output.Table):
    """A command that reads a deployment and prints a table."""

    is_stopped = False
    """Whether a run was stopped before its end."""
    takes: Sequence[Row] = (
        several("--cell <name>", "cells", "Only this cell, by name or UUID; default: all"),
        several(
            *("--service-conf <host>=<file>", "service_files"),
            "A configuration file of a host's nova-compute, or a directory of such files; "
            "name them in the order in which the service reads them",
        ),
        several(
            *("--serves <host>=<shard>[:<group>]", "served"),
            "The shard and the conductor group that a host serves, instead of its file",
        ),
    )

    def refuse_unknown_codes(self, codes: Iterable[str]) -> None:
        """Refuse codes that no finding has, and name those that are nearest."""
        from ironic_virt.fleet import checks

        for code in set(codes) - checks.CHECKS.keys():
            near = ", ".join(difflib.get_close_matches(code, checks.CHECKS, cutoff=0.0))
            self.refuse(f"no finding has the code {code}; the nearest are {near}")

    @functools.cached_property
    def conf(self) -> cfg.ConfigOpts:
        """Nova's configuration, opened; a process can't open it again.

        :raises NovaMissing: Nova is not installed here.
        """
        if not _is_nova_installed():
            raise NovaMissing("Nova is not installed here; run this where nova-manage runs")
        from ironic_virt.fleet import nova_conf

        return nova_conf.load(self.app.options.config_files, self.app.options.config_dirs)

    def service_options(self, args: argparse.Namespace) -> dict[str, ServiceOptions]:
        """The options of services by host, from their files or given by hand."""
        from ironic_virt.fleet import options

        files: dict[str, list[str]] = {}
        for text in args.service_files:
            host, equals, path = text.partition("=")
            if not (host and equals and path):
                self.refuse(f"argument --service-conf: {text} is not <host>=<file>")
            files.setdefault(host, []).append(path)
        services = {host: options.read(host, paths) for host, paths in files.items()}
        for text in args.served:
            try:
                service = options.parse_serves(text)
            except ValueError as exc:
                self.refuse(f"argument --serves: {exc}")
            if service.host in services:
                self.refuse(f"argument --serves: {service.host} is given twice")
            services[service.host] = service
        return services

    def reader(self, args: argparse.Namespace, assumed: Plan | None = None) -> Reader:
        """Make the reader of the deployment.

        :param assumed: a plan, for the services whose file is not given.
        """
        given, conf = self.service_options(args), self.conf
        planned = {} if assumed is None else assumed.options
        from ironic_virt.fleet.reading import Reader

        # A service of a plan may have been deleted since.
        named, options = given.keys() - planned.keys(), {**planned, **given}
        return Reader(conf, args.cells, options, named, progress=self.progress())

    def progress(self) -> Callable[[str, int, int], None]:
        """Return what shows progress; nothing under ``--quiet``."""
        if self.app.options.verbose_level == 0:
            return lambda what, done, total: None
        return Progress(self.app.stderr)

    def collected(
        self, reports: Iterable[Report[T]], kind: Callable[[T], str], about: str = ""
    ) -> list[Report[T]]:
        """Collect what a run reports; at its end sum it up, and set the exit code.

        :param kind: what a thing is, in the plural.
        """
        collected: list[Report[T]] = []
        try:
            for report in reports:
                collected.append(report)
            if not collected:
                self.say(f"{about}nothing to do")
        except BaseException as error:
            self.is_stopped = True
            self.say("Stopped before the end. Run the command again to continue.")
            if not isinstance(error, exceptions.IronicVirtError | OSError):
                raise
            self.fail(error)
        finally:
            self._sum_up(collected, kind, about)
        return collected

    def _sum_up(self, reports: Sequence[Report[T]], kind: Callable[[T], str], about: str) -> None:
        from ironic_virt.fleet.plans.apply import Effect

        kinds: dict[str, Counter[Effect]] = {}
        for report in reports:
            kinds.setdefault(kind(report.change), Counter())[report.outcome] += 1
        for name, counts in kinds.items():
            words = ", ".join(f"{count:,} {outcome.value}" for outcome, count in counts.items())
            self.say(f"{about}{counts.total():,} {name}: {words}")
        waiting = Counter(report.reason for report in reports if report.outcome is Effect.WAITS)
        for reason, count in waiting.most_common():
            self.say(f"{about}{count:,} wait: {reason}")
        outcomes = {report.outcome for report in reports}
        if Effect.FAILED in outcomes:
            self.code = FleetExitCode.FAILED
        elif outcomes & {Effect.WAITS, Effect.REFUSED}:
            self.code = self.code or FleetExitCode.FOUND


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ironic-virt-fleet`` with ``argv``, the process's own by default."""
    return shell.run(Fleet, argv)


if __name__ == "__main__":
    sys.exit(main())
