# SPDX-License-Identifier: Apache-2.0

"""Runs the scenarios in a release's environment, and counts."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests import depth

LEFT_OUT = ("test_door.py",)
"""About installing from the checkout, which is not there."""

_WEIGHTS = {
    "test_settled.py": 120,
    "test_life.py": 100,
    "test_trouble.py": 80,
    "test_volumes.py": 60,
    "test_pools.py": 60,
    "test_shards_and_groups.py": 60,
    "test_power.py": 50,
    "test_harm.py": 50,
}
"""How long files take, relative to each other; one that isn't named takes 20."""
_PATIENCE = 3600
"""Seconds for one process; each of its tests has its own limit."""
_NO_TESTS = 5
"""How pytest ends if it was given no test."""


@dataclasses.dataclass
class Counts:
    """What became of tests.

    :ivar failed: the names of those that failed.
    :ivar again: the names of those that passed when they were run once more by themselves.
    :ivar skipped: why some did not run: how many by reason.
    """

    passed: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
    again: list[str] = dataclasses.field(default_factory=list)
    skipped: Counter[str] = dataclasses.field(default_factory=Counter)

    def __iadd__(self, other: Counts) -> Counts:
        self.passed += other.passed
        self.failed += other.failed
        self.again += other.again
        self.skipped += other.skipped
        return self

    def __str__(self) -> str:
        words = [f"{self.passed} passed"]
        if self.skipped:
            words.append(f"{self.skipped.total()} skipped")
        if self.failed:
            words.append(f"{len(self.failed)} failed")
        return ", ".join(words)


def read(report: Path, status: int) -> Counts:
    """The counts in a report of pytest's ``--junitxml``; one that isn't there is a failure.

    :param status: how pytest ended.  With 0, what failed was run once more, and passed then.
    """
    counts = Counts()
    if not report.exists():
        counts.failed.append(f"{report.stem}: no report; see {report.with_suffix('.log')}")
        return counts
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            (counts.failed if status else counts.again).append(name)
        elif (skipped := case.find("skipped")) is not None:
            counts.skipped[skipped.get("message", "")] += 1
        else:
            counts.passed += 1
    counts.passed += len(counts.again)
    if status not in (0, _NO_TESTS) and not counts.failed:
        # A secret in a log, for instance.
        log = report.with_suffix(".log")
        counts.failed.append(f"{report.stem}: pytest ended with {status}; see {log}")
    return counts


def ended(process: subprocess.Popen[bytes], patience: float) -> int:
    """Wait for a process, and return how it ended; one that takes too long is ended."""
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        # pytest shows then where all threads are.
        process.send_signal(signal.SIGABRT)
        return process.wait()


def dealt(files: Sequence[str], hands: int) -> list[list[str]]:
    """Divide files among hands so that all take about as long."""
    dealt: list[list[str]] = [[] for _ in range(hands)]
    taken = [0] * hands
    for file in sorted(files, key=lambda file: (-_WEIGHTS.get(Path(file).name, 20), file)):
        hand = taken.index(min(taken))
        dealt[hand].append(file)
        taken[hand] += _WEIGHTS.get(Path(file).name, 20)
    return [hand for hand in dealt if hand]


def _environ(threading: str) -> dict[str, str]:
    return {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "0" if threading == "eventlet" else "1"}


@dataclasses.dataclass(frozen=True)
class Runner:
    """Runs tests in one environment.

    :ivar environment: with Nova and our wheel.
    :ivar ironic: with Ironic.
    :ivar tests: a directory that has ``tests`` in it, and not our package.
    :ivar logs: where reports and what was printed go.
    :ivar jobs: how many processes of pytest run at once.
    """

    environment: Path
    ironic: Path
    tests: Path
    logs: Path
    jobs: int

    def nova(self, threading: str, only: str, arguments: Sequence[str]) -> Counts:
        """The scenarios of ``tests/nova``.

        :param threading: ``eventlet`` or ``threads``.
        :param only: which, for ``-k``.
        """
        files = [
            str(path.relative_to(self.tests))
            for path in sorted(self.tests.glob("tests/nova/test_*.py"))
            if path.name not in LEFT_OUT
        ]
        module = "tests.releases.green" if threading == "eventlet" else "pytest"
        only_these = ["-k", only] if only else []
        only_these += depth.choose(["-m", "not nightly"], [])
        commands = {
            f"nova-{threading}-{number}": ["-m", module, *hand, *only_these, *arguments]
            for number, hand in enumerate(dealt(files, self.jobs))
        }
        return self._counts(commands, _environ(threading))

    def deployment(self, threading: str, arguments: Sequence[str]) -> Counts:
        """Return the tests of ``tests/nova_deployment`` that run by day; the night has all."""
        command = ["-m", "pytest", "tests/nova_deployment", "-m", "not nightly", *arguments]
        return self._counts({f"deployment-{threading}": command}, _environ(threading))

    def conformance(self, arguments: Sequence[str]) -> Counts:
        """The questions to the fake and to the real Ironic."""
        command = ["-m", "pytest", "-n", str(self.jobs), "tests/conformance", *arguments]
        return self._counts({"conformance": command}, {})

    def _counts(self, commands: Mapping[str, Sequence[str]], environ: Mapping[str, str]) -> Counts:
        counts = Counts()
        for name, status in self._run(commands, environ):
            counts += read(self.logs / f"{name}.xml", status)
        if not counts.passed and not counts.failed:
            counts.failed.append(f"{', '.join(commands)}: no test has run")
        return counts

    def _run(
        self, commands: Mapping[str, Sequence[str]], environ: Mapping[str, str]
    ) -> Iterator[tuple[str, int]]:
        """Run them at once; the name of each and how it ended, as it has."""
        self.logs.mkdir(parents=True, exist_ok=True)
        running: dict[str, subprocess.Popen[bytes]] = {}
        variables = {
            **os.environ,
            "IRONIC_VIRT_REAL_IRONIC": str(self.ironic),
            "PATH": f"{self.environment / 'bin'}:{os.environ['PATH']}",
            **environ,
        }
        for name, command in commands.items():
            report = self.logs / f"{name}.xml"
            report.unlink(missing_ok=True)
            with report.with_suffix(".log").open("wb") as log:
                running[name] = subprocess.Popen(
                    [
                        *(str(self.environment / "bin" / "python"), *command),
                        *("--junitxml", str(report), "-p", "no:cacheprovider", "-q"),
                    ],
                    cwd=self.tests,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
        try:
            for name, process in running.items():
                yield name, ended(process, _PATIENCE)
        finally:
            for process in running.values():
                process.kill()
