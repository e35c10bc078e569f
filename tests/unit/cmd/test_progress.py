# SPDX-License-Identifier: Apache-2.0

"""What is shown while something goes on: lines, or on a terminal pictures."""

import io
import re
import sys

import pytest

from ironic_virt.cmd import progress

XTERM = {"TERM": "xterm-256color"}


class Stream(io.TextIOWrapper):
    """A text stream in memory that may be a terminal."""

    def __init__(self, terminal: bool, encoding: str = "utf-8") -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding, write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def text(self) -> str:
        return self.bytes.getvalue().decode(self.encoding)


@pytest.fixture(autouse=True)
def honest_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make rich believe what the tests say of the terminal."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize(
    ("terminal", "environ", "encoding", "wanted"),
    [
        (True, XTERM, "utf-8", True),
        (True, XTERM | {"NO_COLOR": ""}, "utf-8", True),
        (False, XTERM, "utf-8", False),
        (True, XTERM | {"NO_COLOR": "1"}, "utf-8", False),
        (True, {"TERM": "dumb"}, "utf-8", False),
        (True, {"TERM": ""}, "utf-8", False),
        (True, {}, "utf-8", False),
        (True, XTERM, "latin-1", False),
    ],
)
def test_a_live_picture_needs_a_terminal_and_a_user_who_wants_it(
    terminal, environ, encoding, wanted
) -> None:
    assert progress.takes_pictures(Stream(terminal, encoding), environ) is wanted


def test_without_rich_a_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    stream = Stream(terminal=True)
    assert not progress.takes_pictures(stream, XTERM)


NAMES = {"a": ("demo-1", "node-1"), "b": ("demo-2", "")}


def act(display: progress.Display) -> None:
    display.title("ironic-virt 1.2.3")
    display.command("ironic-virt node list")
    display.done("Started", 1.25)
    with display.watch("Deploying", NAMES) as tracks:
        tracks.report("a", "reserving", "available")
        tracks.report("a", "deploying", "wait call-back", where="node-7")
        tracks.report("a", "deploying", "wait call-back")
        tracks.report("c", "of which nobody was told")
        tracks.finish("a", "active")
        tracks.report("a", "after its end")
        tracks.fail("b", "DeployFailed")
    display.note("That was it.")


def test_lines_tell_each_change_once_and_in_ascii() -> None:
    stream = Stream(terminal=False, encoding="ascii")
    act(progress.Display(stream, clock=lambda: 1.0))
    assert stream.text.splitlines() == [
        "ironic-virt 1.2.3",
        "",
        "$ ironic-virt node list",
        "Started (1.2 s)",
        "Deploying ...",
        "  demo-1 on node-1: reserving, 0.0 s",
        "  demo-1 on node-7: deploying (wait call-back), 0.0 s",
        "  demo-1 on node-7: active, 0.0 s",
        "  demo-2: failed (DeployFailed), 0.0 s",
        "That was it.",
    ]


def test_a_picture_stays_and_the_cursor_comes_back() -> None:
    stream = Stream(terminal=True)
    display = progress.Display(stream, pictures=True)
    act(display)
    for words in ("Started", "demo-1: active, node node-7", "demo-2: failed (DeployFailed)"):
        assert words in stream.text
    assert stream.text.rindex("\x1b[?25h") > stream.text.rindex("\x1b[?25l")
    with pytest.raises(RuntimeError), display.watch("Deploying", NAMES):
        raise RuntimeError("cut off")
    assert stream.text.rindex("\x1b[?25h") > stream.text.rindex("\x1b[?25l")


def test_a_narrow_terminal_gets_several_lines_and_a_cut_node(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Stream(terminal=True)
    display = progress.Display(stream, pictures=True)
    display.command("ironic-virt node list -c UUID -c Host")
    display.command("ironic-virt node list -c UUID -c State -c Host")
    with display.watch("Building", {"a": ("demo-1", "eb1167b3-67a9-4378-bc65")}) as tracks:
        tracks.report("a", "deploying")
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", stream.text).replace("\r", "\n")
    assert text.startswith(
        "\n$ ironic-virt node list -c UUID -c Host\n"
        "\n$ ironic-virt node list -c UUID -c \\\n    State -c Host\n"
    )
    assert "demo-1: deploying, node" in text
    assert "…" in text
    assert max(map(len, text.splitlines())) <= 40
