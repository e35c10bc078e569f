# SPDX-License-Identifier: Apache-2.0

"""The scripts of ``complete`` in the shells that they are for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAMS = Path(sys.executable).parent
_LINES = {
    # What has been typed, and what is offered of it.
    "ironic-virt server ": {"create", "list", "rescue"},
    "ironic-virt server create --": {"--image", "--flavor"},
    "ironic-virt-fleet plan ": {"shards", "drain", "move"},
    "ironic-virt-manage db ": {"sync", "purge"},
}
_NOT_OFFERED = {"ironic-virt-fleet", "unprotect", "node", "_"}
# zsh completes for a terminal only: two of its builtins say what they were given.
_ZSH = """
compdef() {{ done=$1 }}
compadd() {{ print -l -- ${{(P)2}} }}
_files() {{ print files }}
source {script}
words=({words} {last}); CURRENT=${{#words}}
$done
"""


def _offered(shell: str, script: Path, line: str) -> set[str]:
    if shell == "fish":
        code = f"source {script}; complete -C '{line}'"
        command = ["fish", "--no-config", "-c", code]
    else:
        *words, last = line.split(" ")
        code = _ZSH.format(script=script, words=" ".join(words), last=f"'{last}'")
        command = ["zsh", "-f", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("shell", ["fish", "zsh"])
def test_a_shell_offers_commands_and_options(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; .ci/run installs it")
    for line, wanted in _LINES.items():
        program = line.split()[0]
        script = tmp_path / f"{program}.{shell}"
        command = [str(_PROGRAMS / program), "complete", "--shell", shell]
        script.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)
        offered = _offered(shell, script, line)
        assert wanted <= offered, line
        assert not offered & _NOT_OFFERED, line
    if shell == "zsh":
        line = "ironic-virt server show n"
        assert _offered(shell, tmp_path / "ironic-virt.zsh", line) == {"files"}
