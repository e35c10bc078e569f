# SPDX-License-Identifier: Apache-2.0

"""Commands that tests have forked behave as commands that were started."""

import contextlib
import io
import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.preloading import Preloaded, Started


@pytest.fixture
def stream(tmp_path: pathlib.Path) -> Iterator[io.TextIOBase]:
    with (tmp_path / "output").open("w+") as stream:
        yield stream


def written(stream: Any) -> str:
    stream.seek(0)
    return str(stream.read())


@pytest.fixture(scope="module")
def preloaded() -> Iterator[Preloaded]:
    with Preloaded() as preloaded:
        yield preloaded


def test_a_command_is_a_process_like_any_other(preloaded, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it.conf").write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    said = []
    for name in ("it.conf", "not.conf"):
        with (tmp_path / "out").open("w+") as out, (tmp_path / "err").open("w+") as err:
            argv, environ = ("server", "list", "-f", "json"), {"IRONIC_VIRT_CONFIG_FILE": name}
            process = preloaded.start(argv, stdout=out, stderr=err, environ=environ)
            code = process.wait()
            assert process.poll() == code
            said.append((code, written(out), written(err)))
    assert said[0][:2] == (2, "")
    assert f"sqlite:///{tmp_path}/ironic-virt.sqlite has no tables" in said[0][2]
    assert said[1][:2] == (2, "")
    assert "not.conf: No such file" in said[1][2]


def test_a_command_that_is_killed_is_told_so_and_the_next_one_runs(
    preloaded: Preloaded, stream: Any
) -> None:
    def start(*argv: str) -> Started:
        return preloaded.start(argv, stdout=stream, stderr=stream, environ=os.environ)

    # Its output is a pipe that nobody reads, so it can't end by itself.
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(theirs, b"x" * 4096):
            pass
    os.set_blocking(theirs, True)
    with os.fdopen(theirs, "w") as full, os.fdopen(ours):
        process = preloaded.start(("--help",), stdout=full, stderr=full, environ=os.environ)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert start("--version").wait() == 0
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.kill()
    assert start("--version").wait() == 0
    assert written(stream).count("ironic-virt ") == 2


def test_who_starts_commands_ends_with_its_caller(stream: Any) -> None:
    with Preloaded() as preloaded:
        # A process that had it handed on does not keep it.
        kept = os.dup(preloaded.channel.fileno())
    os.close(kept)
    with pytest.raises(ChildProcessError, match="has ended"):
        preloaded.start((), stdout=stream, stderr=stream, environ=os.environ)
