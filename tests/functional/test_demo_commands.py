# SPDX-License-Identifier: Apache-2.0

"""How the demo types commands."""

import io
import os
import pathlib
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_virt.cmd.demo.commands import Commands
from ironic_virt.cmd.demo.interrupts import DemoFailed, Interrupted, Interrupts
from ironic_virt.cmd.progress import Display


@pytest.fixture
def stream(tmp_path: pathlib.Path) -> Iterator[io.TextIOBase]:
    with (tmp_path / "output").open("w+") as stream:
        yield stream


def written(stream: Any) -> str:
    stream.seek(0)
    return str(stream.read())


def commands(stream: Any, interrupts: Interrupts) -> Commands:
    return Commands(Display(stream), interrupts, stream, os.environ)


def test_a_command_is_shown_as_typed_and_followed_by_what_it_prints(
    stream: Any,
) -> None:
    with Interrupts() as interrupts:
        commands(stream, interrupts)("help", "server create")
    lines = written(stream).splitlines()
    assert lines[:2] == ["", "$ ironic-virt help 'server create'"]
    assert lines[2].startswith("usage: ironic-virt server create")


def test_one_that_fails_is_named_after_what_it_said(stream: Any) -> None:
    with Interrupts() as interrupts, pytest.raises(DemoFailed, match=r"server create.* code 2"):
        commands(stream, interrupts)("server", "create", "web")
    assert "arguments are required" in written(stream)


def test_a_signal_ends_the_command_before_it_is_passed_on(
    stream: Any,
) -> None:
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)

    with Interrupts(sleep=sleep) as interrupts, pytest.raises(Interrupted):
        commands(stream, interrupts)("--help")
    assert len(waited) == 1
    assert "usage" not in written(stream)
