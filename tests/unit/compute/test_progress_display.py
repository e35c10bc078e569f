# SPDX-License-Identifier: Apache-2.0

"""Which display is taken, and what the two of them write."""

import builtins
import io
import logging
import sys
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.compute.progress import display, live
from ironic_virt.compute.progress.board import Board

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
def test_a_live_picture_needs_a_terminal_that_can_and_a_user_who_wants(
    terminal: bool, environ: dict[str, str], encoding: str, wanted: bool
) -> None:
    stream = Stream(terminal, encoding)
    assert display.wants_live(stream, environ) is wanted
    chosen = display.choose(stream, environ)
    assert isinstance(chosen, live.LiveDisplay if wanted else display.PlainDisplay)


def test_without_rich_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def without_rich(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real_import(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, live.__name__)
    monkeypatch.delattr("ironic_virt.compute.progress.live")
    monkeypatch.setattr(builtins, "__import__", without_rich)
    with pytest.raises(exceptions.ExtrasMissing, match=r"pip install 'ironic-virt\[demo\]'"):
        display.choose(Stream(terminal=True), XTERM)
    assert isinstance(display.choose(Stream(terminal=False), XTERM), display.PlainDisplay)


def board() -> Board:
    board = Board(lambda: 1.0)
    board.begin({"a": ("demo-1", "node-1"), "b": ("demo-2", "node-2")})
    return board


def act(shown: display.Display, tracks: Board) -> None:
    shown.title("ironic-virt 1.2.3")
    shown.done("Started", 1.25)
    with shown.watch("Deploying", tracks):
        tracks.report("a", "deploying", "wait call-back")
        tracks.report("a", "active")
        tracks.finish("a", "active")
        tracks.fail("b", "DeployFailed")
    shown.table("Nodes", ("Node", "Power"), [("node-1", "power on")])
    shown.note("That was it.")


def test_plain_lines_tell_each_change_once_and_in_ascii() -> None:
    stream = Stream(terminal=False, encoding="ascii")
    tracks = board()
    act(display.PlainDisplay(stream), tracks)
    tracks.report("a", "after the block nobody listens")
    assert stream.text.splitlines() == [
        "ironic-virt 1.2.3",
        "Started (1.2 s)",
        "Deploying ...",
        "  demo-1 on node-1: deploying (wait call-back), 0.0 s",
        "  demo-1 on node-1: active, 0.0 s",
        "  demo-2 on node-2: failed (DeployFailed), 0.0 s",
        "",
        "Nodes:",
        "",
        "Node    Power",
        "------  --------",
        "node-1  power on",
        "",
        "That was it.",
    ]


def test_the_live_picture_stays_and_the_cursor_comes_back() -> None:
    stream = Stream(terminal=True)
    act(live.LiveDisplay(stream), board())
    text = stream.text
    for words in ("Started", "demo-1", "node-1", "active", "failed (DeployFailed)", "power on"):
        assert words in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_an_error_within_leaves_the_terminal_in_order() -> None:
    stream = Stream(terminal=True)
    with (
        pytest.raises(RuntimeError),
        live.LiveDisplay(stream).watch("Deploying", board()),
    ):
        raise RuntimeError("cut off")
    assert stream.text.rindex("\x1b[?25h") > stream.text.rindex("\x1b[?25l")


@pytest.mark.parametrize("terminal", [True, False])
def test_log_lines_for_the_terminal_go_above_the_picture(terminal: bool) -> None:
    stream = Stream(terminal=True)
    log_stream = Stream(terminal)
    handler = logging.StreamHandler(log_stream)
    logging.getLogger().addHandler(handler)
    try:
        with live.LiveDisplay(stream).watch("Deploying", board()):
            logging.getLogger("ironic_virt.example").warning("node node-1 is slow")
        assert handler.stream is log_stream
    finally:
        logging.getLogger().removeHandler(handler)
    # A log that goes elsewhere, into a file, is left alone.
    assert ("node-1 is slow" in stream.text) is terminal
    assert ("node-1 is slow" in log_stream.text) is not terminal
