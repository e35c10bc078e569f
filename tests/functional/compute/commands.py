# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt`` as a user types it, in this process, with records of the test's own."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ironic_virt.cmd import shell
from tests import root_logger


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a command has left: its exit code, and what it has written."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output, taken as JSON."""
        return json.loads(self.out)


class Commands:
    """Runs commands.

    :param config: the ini file that they are given, as the environment does.
    :param main: runs one.
    """

    def __init__(
        self,
        config: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        main: Callable[[Sequence[str]], int] = shell.main,
    ) -> None:
        self.config = config
        self._main = main
        self._capsys = capsys
        monkeypatch.setenv("IRONIC_VIRT_CONFIG_FILE", str(config))
        for name in ("CLIFF_FIT_WIDTH", "CLIFF_MAX_TERM_WIDTH"):
            monkeypatch.delenv(name, raising=False)

    def __call__(self, *argv: str) -> Result:
        """Run one to its end, however that is."""
        self._capsys.readouterr()
        with root_logger.kept():
            try:
                code = self._main(argv)
            except SystemExit as end:
                code = int(end.code or 0)
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err)

    def json(self, *argv: str) -> Any:
        """Run one that has to work, and take what it prints."""
        result = self(*argv, "-f", "json")
        assert (result.code, result.err) == (0, "")
        return result.json

    def ok(self, *argv: str) -> str:
        """Run one that has to work without a word on standard error."""
        result = self(*argv)
        assert (result.code, result.err) == (0, "")
        return result.out
