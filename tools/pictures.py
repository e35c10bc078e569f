# SPDX-License-Identifier: Apache-2.0

"""Run commands in a terminal of 80 columns, and draw what they show into the documentation.

    python tools/pictures.py [--check | --metal] [DIRECTORY]

The commands run on a fake Ironic, as a user would run them.  Uuids are replaced by the order in
which they appear, and so are ports and names of temporary directories: two runs differ in times,
and in which nodes the scheduler has picked.  One picture is a film: it shows its last frame until
a reader clicks on it or moves to it by keyboard; then CSS shows what was on the screen when.

With ``--metal`` only the demo on a machine is drawn, many times as fast as it was.  It takes root
and some minutes, so it isn't among those that are checked.  On a page of others it brings its
own styles.

With ``--check`` nothing is written, and the exit status is 1 if a command shows other lines now,
uuids and numbers aside.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import itertools
import os
import pty
import re
import select
import shlex
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import uuid
from collections.abc import Iterator, Sequence
from fcntl import ioctl
from pathlib import Path

import pyte

PICTURES = Path(__file__).parents[1] / "doc" / "source" / "pictures"
PROGRAMS = Path(sys.executable).parent
COLUMNS = 80
# More than is ever shown: a line that is scrolled away would be lost.
LINES = 300
FLAVOR = ("ironic-virt", "flavor", "create", "gold", "--resource-class", "baremetal")
SERVERS = (
    "ironic-virt server create --flavor gold --image file:///images/debian.raw \\\n"
    "    --wait web -c name -c status",
    "ironic-virt server list -c Name -c Status -c Node",
    "ironic-virt server show web",
    "ironic-virt node list -c UUID -c State -c Host",
)
CONFIG = """\
[DEFAULT]
host = compute-1
state_path = {directory}
[compute]
resource_refresh_interval = 1
[ironic]
auth_type = none
endpoint_override = http://127.0.0.1:{port}
"""
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_REPLACED = (
    (re.compile(r"(127\.0\.0\.1):\d{4,5}"), r"\1:6385"),
    (re.compile(r"/\S*/ironic-virt-demo-\w{8}"), "/tmp/ironic-virt-demo-x1y2z3a4"),
    (re.compile(r"(\d)\.dev\d+"), r"\1"),
)
# Nodes may be clean before the demo looks at them, and steps may be over before a command looks.
_NOT_ALWAYS = re.compile(r"^Ironic cleans the nodes|: available |^  \S+: (?!\w+ on )")
_SECONDS = 300.0
# Of a film: a screen that is still for so long is a frame, how far they are apart at least, how
# long the last one stays.
_STILL, _APART, _STAYS = 0.02, 0.5, 5.0
# How many times as fast a film of minutes is.
_FASTER = 10
# Of no weight where a page has styles.
_ALONE = """\
:where(#terminal-metal) {background: #f6f8fa; color: #1f2328; fill: #1f2328; font: 14px monospace}
:where(#terminal-metal text) {white-space: pre}
:where(#terminal-metal .bold) {font-weight: 600}
:where(#terminal-metal .green) {fill: #1a7f37}"""

Span = tuple[str, str]
"""Text, and the CSS classes that it has."""
Frame = tuple[float, list[list[Span]]]
"""When it was seen, in seconds, and its lines."""


class Terminal:
    """What commands have drawn so far.

    :ivar frames: what was seen meanwhile.
    """

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)

    def type_in(self, command: str) -> None:
        """Show a command, and run it."""
        shown = command.replace("\n", "\r\n")
        self._stream.feed(f"\x1b[1m$ {shown}\x1b[0m\r\n".encode())
        self.run(shlex.split(command.replace("\\\n", "")))
        self._stream.feed(b"\r\n")

    def run(self, argv: Sequence[str]) -> None:
        """Run a program to its end."""
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
        os.close(theirs)
        with contextlib.suppress(OSError):  # raised at the end of a terminal
            while drawn := os.read(ours, 65536):
                self._stream.feed(drawn)
                if not select.select([ours], [], [], _STILL)[0]:
                    self.frames.append((time.monotonic(), self.lines()))
        os.close(ours)
        if process.wait():
            text = "\n".join(line.rstrip() for line in self._screen.display).rstrip()
            raise SystemExit(f"{shlex.join(argv)} failed:\n{text}")

    def lines(self) -> list[list[Span]]:
        """Each line as spans of one look."""
        shown = enumerate(self._screen.display)
        found = [list(self._spans(number, len(line.rstrip()))) for number, line in shown]
        while found and not found[-1]:
            found.pop()
        return found

    def _spans(self, number: int, width: int) -> Iterator[Span]:
        row = self._screen.buffer[number]
        look = [f"{'bold ' if row[at].bold else ''}{row[at].fg}" for at in range(width)]
        for classes, places in itertools.groupby(range(width), look.__getitem__):
            text = "".join(row[at].data for at in places)
            yield text, classes.replace("default", "").strip()


def replaced(lines: list[list[Span]], known: dict[str, str] | None = None) -> list[list[Span]]:
    """Return the lines with everything replaced that differs between two runs, except times.

    :param known: the uuids of other lines, and by what they were replaced.
    """
    known = {} if known is None else known

    def known_as(found: re.Match[str]) -> str:
        name = f"server or node {len(known)}"
        return known.setdefault(found[0], str(uuid.uuid5(uuid.NAMESPACE_OID, name)))

    def one(text: str) -> str:
        for pattern, new in _REPLACED:
            text = pattern.sub(new, text)
        return _UUID.sub(known_as, text)

    return [[(one(text), classes) for text, classes in line] for line in lines]


def svg(name: str, title: str, lines: list[list[Span]]) -> str:
    """A picture for a page, which has the styles."""
    return "\n".join([*_head(name, title, len(lines)), *_drawn(lines), "</svg>", ""])


def film(name: str, title: str, frames: Sequence[Frame], styles: Sequence[str] = ()) -> str:
    """A picture of the last frame, which moves once it has the focus."""
    last = len(frames) - 1
    shown: dict[tuple[int, int], list[str]] = {}
    began: dict[str, int] = {}
    for number, (_, lines) in enumerate([*frames, (0.0, [])]):
        drawn = dict.fromkeys(_drawn(lines))
        for line in [line for line in began if line not in drawn]:
            shown.setdefault((began.pop(line), number - 1), []).append(line)
        began = {line: began.get(line, number) for line in drawn}
    start = frames[0][0]
    seconds = frames[last][0] - start + _STAYS
    parts, rules = [], []
    for (first, end), texts in sorted(shown.items()):
        if (first, end) == (0, last):
            parts += texts
            continue
        steps = [(0.0, "hidden"), (frames[first][0] - start, "visible")]
        if end < last:
            steps.append((frames[end + 1][0] - start, "hidden"))
        rule = " ".join(f"{100 * at / seconds:.1f}% {{visibility: {look}}}" for at, look in steps)
        rules.append(f"@keyframes {name}-{first}-{end} {{{rule}}}")
        kind = ' class="passing"' if end < last else ""
        parts += [f'  <g{kind} style="animation-name: {name}-{first}-{end}">', *texts, "  </g>"]
    rows = max(len(lines) for _, lines in frames)
    style = [
        "  <style>",
        *styles,
        f"#{name} .passing, #{name} .play {{visibility: hidden}}",
        "@media (prefers-reduced-motion: no-preference) {",
        f"#{name}:not(:focus) .play {{cursor: pointer; visibility: visible}}",
        f"#{name}:focus g {{animation: {seconds:.1f}s step-end}}",
        *rules,
        "}",
        "  </style>",
        f'  <text class="play" x="688" y="{17 * rows + 5}" text-anchor="end">\u25b6 play</text>',
    ]
    head = _head(name, title, rows, more=' tabindex="0"')
    return "\n".join([*head, *style, *parts, "</svg>", ""])


def _head(name: str, title: str, rows: int, more: str = "") -> list[str]:
    return [
        "<!-- SPDX-License-Identifier: Apache-2.0; written by make pictures -->",
        f'<svg id="{name}" class="terminal-picture" xmlns="http://www.w3.org/2000/svg"'
        f' viewBox="0 0 700 {17 * rows + 20}"{more} role="img" aria-labelledby="{name}-title">',
        f'  <title id="{name}-title">{html.escape(title)}</title>',
    ]


def _drawn(lines: list[list[Span]]) -> Iterator[str]:
    for number, line in enumerate(lines):
        spans = "".join(
            f'<tspan class="{classes}">{html.escape(text)}</tspan>'
            if classes
            else html.escape(text, quote=False)
            for text, classes in line
        )
        if spans:
            yield f'  <text x="12" y="{17 * number + 22}">{spans}</text>'


def text_of(picture: str) -> list[str]:
    """The lines of a picture; of a film those of its last frame."""
    picture = re.sub(r'<g class="passing".*?</g>', "", picture, flags=re.DOTALL)
    found = re.findall(r"<text [^>]*>(.*)</text>", picture)
    return [html.unescape(re.sub(r"<[^>]+>", "", line)) for line in found]


def demo() -> tuple[list[list[Span]], list[Frame]]:
    """All that the demo shows in the end, and how servers are built meanwhile."""
    terminal = Terminal()
    terminal.run(["ironic-virt", "demo"])
    known: dict[str, str] = {}
    whole = replaced(terminal.lines(), known)
    cut = ("ironic-virt server create", "ironic-virt server reboot")
    parts = [(at, between(replaced(lines, known), *cut)) for at, lines in terminal.frames]
    return whole, thin(parts, between(whole, *cut))


def thin(frames: Sequence[Frame], final: list[list[Span]]) -> list[Frame]:
    """Return the frames that differ and are apart, and the last one."""
    kept: list[Frame] = []
    for at, part in frames:
        if part and (not kept or (part != kept[-1][1] and at - kept[-1][0] >= _APART)):
            kept.append((at, part))
    return [*kept, (kept[-1][0] + _APART, final)]


def metal() -> str:
    """The demo on a machine: a film with its own styles."""
    terminal = Terminal()
    terminal.run([sys.executable, "-m", "tools.demo_metal"])
    cut = ("# 1.", "# 4.")
    parts = [(at / _FASTER, between(lines, *cut)) for at, lines in terminal.frames]
    frames = thin(parts, between(terminal.lines(), *cut))
    title = "A server is built on a machine, whose serial line stands after the bar"
    return film("terminal-metal", title, frames, [_ALONE])


def between(lines: list[list[Span]], first: str, last: str) -> list[list[Span]]:
    """From the command that begins with ``first`` to before the one that begins with ``last``.

    :returns: none without the former, the rest without the latter.
    """
    shown = ["".join(text for text, _ in line) for line in lines]
    starts = [at for at, line in enumerate(shown) if line.startswith((f"$ {first}", f"$ {last}"))]
    if not starts:
        return []
    end = starts[1] - 1 if starts[1:] else len(lines)
    return lines[starts[0] : end]


def servers() -> list[list[Span]]:
    """The commands of a first server on a fake Ironic."""
    terminal = Terminal()
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        config = Path(directory, "ironic-virt.conf")
        config.write_text(CONFIG.format(directory=directory, port=port))
        os.environ["IRONIC_VIRT_CONFIG_FILE"] = str(config)
        fake = ("ironic-virt-fake-ironic", "--port", str(port), "--nodes", "5", "--quiet")
        for program, *options in (fake, ("ironic-virt-compute", "--config-file", str(config))):
            process = subprocess.Popen(
                [program, *options],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        _wait_for_nodes()
        subprocess.run(FLAVOR, stdout=subprocess.DEVNULL, check=True)
        for command in SERVERS:
            terminal.type_in(command)
    return replaced(terminal.lines())


def _wait_for_nodes() -> None:
    deadline = time.monotonic() + _SECONDS
    listing = ["ironic-virt", "node", "list", "-f", "value", "-c", "UUID"]
    while not subprocess.run(listing, capture_output=True, check=False).stdout.strip():
        if time.monotonic() > deadline:
            raise SystemExit(f"The compute service has no nodes after {_SECONDS:.0f} s")
        time.sleep(0.5)


def pictures() -> dict[str, str]:
    """All pictures by file."""
    whole, frames = demo()
    title = "Three servers are built, and the nodes that they are on"
    return {
        "terminal-demo.svg": svg("terminal-demo", "What the demo shows", whole),
        "terminal-built.svg": film("terminal-built", title, frames),
        "terminal-servers.svg": svg("terminal-servers", "A server is built and shown", servers()),
    }


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="Write nothing; compare.")
    parser.add_argument("--metal", action="store_true", help="Draw the demo on a machine.")
    parser.add_argument("directory", nargs="?", type=Path, default=PICTURES)
    args = parser.parse_args()
    os.environ["TERM"] = "xterm-256color"
    os.environ["PATH"] = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    os.environ.pop("NO_COLOR", None)
    different = 0
    drawn = {"terminal-metal.svg": metal()} if args.metal else pictures()
    for name, picture in drawn.items():
        path = args.directory / name
        if args.check:
            new, old = (
                [
                    re.sub(r"\d+", "0", _UUID.sub("uuid", line))
                    for line in text_of(one)
                    if not _NOT_ALWAYS.search(line)
                ]
                for one in (picture, path.read_text())
            )
            for line in sorted({*new} ^ {*old}):
                different += 1
                print(f"{name}: {'+' if line in new else '-'} {line}")
        else:
            path.write_text(picture)
            print(path)
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main())
