# SPDX-License-Identifier: Apache-2.0

"""The page about servers without Nova: its commands, in its order, with its file."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests import preloaded
from tests.ports import reserved_port

PAGE = pathlib.Path(__file__).parents[3] / "doc" / "source" / "user" / "servers.rst"
# Some thirty commands, each a process of its own, on a host that may be busy.
SECONDS = 840
DEPLOY_TIME = ("--deploy-time 2,4", "--deploy-time 0.2,0.4")
"""What the page says, and what a test has the time for."""
PROGRAMS = {
    "ironic-virt-compute": "ironic_virt.cmd.compute",
    "ironic-virt-fake-ironic": "ironic_virt.cmd.fake_ironic",
}
# What a reader sees by looking: that what was started is there.
READY = {
    "ironic-virt-fake-ironic": (
        "until (exec 3<>/dev/tcp/127.0.0.1/6385) 2>/dev/null; do sleep 0.1; done"
    ),
    "ironic-virt-compute": (
        "until [ $(ironic-virt --config-file ironic-virt.conf node list -f value -c UUID"
        " | wc -l) = 5 ]; do sleep 0.1; done"
    ),
}


def blocks(language: str) -> list[str]:
    """The page's blocks in a language, without their indentation."""
    text = PAGE.read_text()
    found = re.findall(
        rf"\.\. code-block:: {language}\n(?:   :.*\n)*\n((?:   .*\n|\n)+)", text, re.MULTILINE
    )
    return ["\n".join(line[3:] for line in block.splitlines()).strip() for block in found]


def commands() -> list[str]:
    # With the lines that go on after a backslash.
    text = "\n".join(blocks("console")).replace("\\\n", " ")
    assert all(line.startswith("$ ") for line in text.splitlines())
    return [line.removeprefix("$ ") for line in text.splitlines()]


@pytest.fixture
def programs(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory with the programs of this interpreter, for the PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name, module in PROGRAMS.items():
        (directory / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {module} "$@"\n')
        (directory / name).chmod(0o755)
    # What is typed often; the others are seen to start as a reader starts them.
    preloaded.write_script(directory / "ironic-virt", preloaded.COMMAND)
    return directory


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


@pytest.fixture
def run(
    tmp_path: pathlib.Path, programs: pathlib.Path, port: int
) -> Iterator[subprocess.Popen[str]]:
    """A shell that is given the page, and all that it starts, until the test's end."""
    here = tmp_path / "here"
    here.mkdir()
    (config,) = blocks("ini")
    quick = "\n[compute]\ntask_interval = 0.2\n"
    (here / "ironic-virt.conf").write_text(config.replace("6385", str(port)) + quick)
    script = ["set -e -m"]
    for command in commands():
        script += [f"echo + {shlex.quote(command)}", command]
        program = command.split()[0]
        if command.endswith("&"):
            script.append(READY[program])
    script.append("wait")
    assert any(DEPLOY_TIME[0] in line for line in script)
    process = subprocess.Popen(
        ["bash", "-c", "\n".join(script).replace("6385", str(port)).replace(*DEPLOY_TIME)],
        cwd=here,
        env=os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        pass_fds=[preloaded.channel()],
    )
    yield process
    # With job control, each job is a process group of its own in this session.
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == process.pid:
                os.kill(int(path.parent.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
    process.wait()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_its_commands_lead_to_a_server_and_back(run: subprocess.Popen[str]) -> None:
    out, _ = run.communicate(timeout=SECONDS)
    assert run.returncode in (0, 143), out
    said = {part.splitlines()[0]: part for part in out.split("\n+ ")}
    assert [part.splitlines()[0] for part in out.split("\n+ ")][1:] == commands()[1:]
    shown = said["ironic-virt server show web"]
    assert re.search(r"\| status +\| ACTIVE ", shown)
    listed = said["ironic-virt server list --deleted"]
    assert listed.count("| DELETED |") == 4
    for name in ("web", "more-1", "more-2", "more-3"):
        assert re.search(rf"\| {name} +\| DELETED", listed)
    history = said["ironic-virt server event list --long web"]
    assert history.count("| Success |") == 10
    assert "| Error " not in history
    ports = said["ironic-virt server show web -c ports -f json"].partition("\n")[2]
    assert json.loads(ports) == {"ports": ["5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11"]}
    assert "/vnc" in said["ironic-virt server console url show --vnc web -f value -c url"]
    assert re.search(r"\| state +\| running ", said["ironic-virt server diagnostics show web"])
    assert "| adminPass " in said["ironic-virt server rescue --wait web"]
