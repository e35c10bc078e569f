# SPDX-License-Identifier: Apache-2.0

"""What a reader types who follows a page: its files and commands, run by a shell as printed."""

import os
import pathlib
import re
import shlex
import signal
import subprocess
import textwrap
from collections.abc import Iterator, Mapping

import pytest

from tests import programs

ROOT = pathlib.Path(__file__).parents[2]
_BLOCK = r"\.\. code-block:: {}\n(?:   :.*\n)*\n((?:   .*\n|\n)+)"
_PROGRAMS = {
    "ironic-virt": programs.COMMAND,
    "ironic-virt-compute": programs.COMPUTE,
    "ironic-virt-fake-ironic": "ironic_virt.cmd.fake_ironic",
}


def section(page: pathlib.Path, heading: str) -> str:
    """The text below a heading, to the next one that is underlined alike."""
    text = page.read_text()
    found = re.search(rf"^{heading}\n(([-=~])\2+)\n", text, re.MULTILINE)
    assert found, f"{page} has no section {heading!r}"
    rest = text[found.end() :]
    return re.split(rf"\n.+\n\{found[2]}{{3,}}\n", rest)[0]


def blocks(text: str, language: str) -> list[str]:
    """The blocks of code in a language, without their indentation."""
    found = re.findall(_BLOCK.format(language), text + "\n", re.MULTILINE)
    return [textwrap.dedent(block).strip() for block in found]


def commands(text: str) -> list[str]:
    """The commands of all console blocks; one that goes on after a backslash is one."""
    lines = "\n".join(blocks(text, "console")).replace("\\\n", " ").splitlines()
    assert all(line.startswith("$ ") for line in lines), lines
    return [line.removeprefix("$ ").partition("   # ")[0] for line in lines]


class Reader:
    """Types commands into a shell with job control, in its own directory.

    :param directory: an empty one.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.here = directory / "here"
        self.here.mkdir()
        self._bin = directory / "bin"
        self._bin.mkdir()
        for name, module in _PROGRAMS.items():
            programs.write_script(self._bin / name, module)
        # All that would be installed is here.
        (self._bin / "pip").symlink_to("/bin/true")
        self._process: subprocess.Popen[str] | None = None

    def type_in(
        self,
        commands: list[str],
        *,
        ready: Mapping[str, str] | None = None,
        replaced: Mapping[str, str] | None = None,
        seconds: float,
    ) -> dict[str, str]:
        """Run the commands one after the other, until one fails.

        :param ready: by a program, what to wait for once it runs in the background.
        :param replaced: what a test has in place of what is printed.
        :returns: by command, as it is printed, what was shown.
        """
        script = ["set -e -m"]
        for command in commands:
            script += [f"echo + {shlex.quote(command)}", command]
            if command.endswith("&") and ready:
                script.append(ready[command.split()[0]])
        script.append("wait")
        text = "\n".join(script)
        for old, new in (replaced or {}).items():
            assert old in text
            text = text.replace(old, new)
        environ = {name: value for name, value in os.environ.items() if name != "NETRC"}
        self._process = subprocess.Popen(
            ["bash", "-c", text],
            cwd=self.here,
            env=environ | {"PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        out, _ = self._process.communicate(timeout=seconds)
        assert self._process.returncode in (0, 143), out
        shown = [part.partition("\n") for part in ("\n" + out).split("\n+ ")[1:]]
        assert len(shown) == len(commands), out
        return {command: part[2] for command, part in zip(commands, shown, strict=True)}

    def close(self) -> None:
        """End all that was started.  With job control each job is a separate process group."""
        if self._process is None:
            return
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self._process.pid:
                    os.kill(int(path.parent.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                continue
        self._process.wait()


@pytest.fixture
def reader(tmp_path: pathlib.Path) -> Iterator[Reader]:
    """A shell for a page, and all that it starts, until the test's end."""
    made = Reader(tmp_path)
    yield made
    made.close()
