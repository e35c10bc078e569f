# SPDX-License-Identifier: Apache-2.0

"""Fails a run in whose logs a secret is found, of whichever process and at whichever level.

Secrets that tests use are made by :func:`secret` and so have a mark in them.  While a
functional test runs, all records of its process, and of those that it starts, go into one
directory (:mod:`tests.log_sink`); at the end of the run that is searched for the mark, as it
is and in base64.  A config drive that is an image is gzipped, where no mark can be seen: the
beginning of any gzipped file in base64 counts as a secret, too.
"""

import base64
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.log_sink import sitecustomize

MARK = "pl4nt3d-s3cr3t"
_SINK = str(Path(sitecustomize.__file__).parent)
_LONGEST_LINE = 2000
GZIPPED = base64.b64encode(b"\x1f\x8b\x08\x00\x00\x00").decode()[:5]
"""What gzipped files begin with, in base64: who deflated them, and that no name follows."""


def secret(kind: str) -> str:
    """A secret of a kind, which no log may have."""
    return f"{MARK}-{kind}"


def forms() -> list[str]:
    """What the mark looks like in a log: as it is, in base64 wherever it begins, or packed."""
    found = [MARK, GZIPPED]
    for before in range(3):
        encoded = base64.b64encode(b"x" * before + MARK.encode()).decode()
        # Without the characters that depend on the neighboring bytes, too.
        found.append(encoded[(before * 8 + 5) // 6 : (before + len(MARK)) * 8 // 6])
    return found


def finds(directory: Path) -> Iterator[str]:
    """The lines of the logs that have a secret in them."""
    looked_for = forms()
    for path in sorted(directory.iterdir()):
        for line in path.read_text(errors="replace").splitlines():
            if any(form in line for form in looked_for):
                yield line[:_LONGEST_LINE]


@pytest.fixture
def watched_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where all that is logged while a test runs can be found."""
    directory = os.environ[sitecustomize.DIRECTORY]
    path = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (_SINK, path))))
    with sitecustomize.watching(directory):
        yield Path(directory)


class LogWatch:
    """The part of the process that was started first; those that it starts know the directory."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="ironic-virt-test-logs-"))
        os.environ[sitecustomize.DIRECTORY] = str(self._directory)
        self._found: list[str] = []
        self._processes = 0

    @classmethod
    def begin(cls, config: pytest.Config) -> None:
        """Have the logs of a run watched; of several processes the first one does it."""
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(cls(), "ironic-virt-log-watch")

    def pytest_sessionfinish(self, session: Any) -> None:
        """Search the logs; the workers have ended."""
        self._processes = len(list(self._directory.iterdir()))
        self._found = list(finds(self._directory))
        if self._found:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was found."""
        if not self._processes:
            return
        if self._found:
            terminalreporter.section("secrets in logs", red=True)
            for line in self._found:
                terminalreporter.write_line(line)
        count = len(self._found)
        terminalreporter.write_line(
            f"logs of {self._processes} processes, {count} lines with a secret in them"
        )

    def pytest_unconfigure(self) -> None:
        """Remove the logs."""
        os.environ.pop(sitecustomize.DIRECTORY, None)
        shutil.rmtree(self._directory, ignore_errors=True)
