# SPDX-License-Identifier: Apache-2.0

"""Carries out the commands that a page of the documentation shows.

A block of code has a name.  ``$`` is the prompt where ``nova-manage`` runs, and ``HOST$`` that
of a host with a ``nova-compute``.
"""

import configparser
import json
import random
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.nova_deployment.configuration import DRIVER
from tests.nova_deployment.deployment import Deployment
from tests.nova_deployment.processes import SECONDS
from tests.nova_deployment.watching import Reader

_BLOCK = re.compile(r"\.\. code-block:: \w+\n( +):name: (\S+)\n\n((?:\1.*\n|\n)+)")
_DIRECTIONS = {"--down": True, "--up": False}
_CHANGING = ("apply", "pools")
_SLICE = 0.02
"""Seconds, at most, that what is to be killed runs between two looks at what it has changed."""


class Page:
    """A page, and the deployment that its commands are about.

    :param rng: says when what changes something is killed.
    :param deaths: how often each such command is killed before it may end.
    :ivar killed: how often that was.
    :ivar said: the standard error of the last command.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        deployment: Deployment,
        directory: Path,
        rng: random.Random,
        deaths: int,
    ) -> None:
        text = "".join(path.read_text() for path in paths)
        self._blocks = {name: block for _, name, block in _BLOCK.findall(text)}
        self._deployment = deployment
        self._directory = directory
        self._rng = rng
        self._deaths = deaths
        self.killed = 0
        self.said = ""

    def _lines(self, name: str, hosts: Mapping[str, str]) -> list[str]:
        lines = [line.strip() for line in self._blocks[name].replace("\\\n", "").splitlines()]
        return [
            re.sub(r"compute-\w|--number \d+", lambda match: hosts.get(match[0], match[0]), line)
            for line in lines
        ]

    def configure(self, name: str, host: str, shown: str = "compute-a") -> None:
        """Write what a block says into the file of a ``nova-compute``.

        :param shown: the host that the page has in its stead.
        """
        parser = configparser.ConfigParser()
        parser.read_string("\n".join(self._lines(name, {shown: host})))
        driver = parser.get("DEFAULT", "compute_driver", fallback=DRIVER)
        options = dict(parser.items("ironic")) if parser.has_section("ironic") else {}
        self._deployment.configure(host, host, driver, **options)

    def run(
        self,
        name: str,
        hosts: Mapping[str, str] | None = None,
        *,
        code: int | tuple[int, ...] = 0,
        reader: Reader | None = None,
    ) -> Any:
        """Carry a block out.

        :param hosts: others instead of those that the page has, and other numbers of nodes.
        :param code: with what ``ironic-virt-fleet`` is to end.
        :param reader: watches what is killed.
        :returns: what the last command has printed as JSON.
        """
        found = None
        for line in self._lines(name, hosts or {}):
            prompt, dollar, command = line.partition("$ ")
            if not dollar:
                continue
            words = shlex.split(command.replace("$services", "SERVICES"))
            if prompt:
                self._systemctl(prompt, words)
            elif words[0] == "ironic-virt-fleet":
                found = self._fleet(words[1:], code, reader)
            elif words[0] == "nova-manage":
                self._deployment.manage(*words[1:])
            else:
                assert words[:4] == ["openstack", "compute", "service", "set"], line
                self._deployment.user.set_down(words[5], _DIRECTIONS[words[4]])
        return found

    def _systemctl(self, host: str, words: list[str]) -> None:
        assert words[0] == "systemctl", words
        assert words[2] == "nova-compute", words
        if words[1] in ("stop", "restart"):
            self._deployment.computes[host].stop()
        if words[1] in ("start", "restart"):
            self._deployment.start_again(host)

    def _fleet(self, words: list[str], code: int | tuple[int, ...], reader: Reader | None) -> Any:
        arguments = [
            argument
            for word in words
            for argument in (self._deployment.service_files if word == "SERVICES" else [word])
        ]
        if words[0] == "apply":
            # Nobody is there to be asked.
            arguments.append("--yes")
        command = [*self._deployment.fleet(*arguments), "-f", "json"]
        changes = words[0] in _CHANGING and not {"--dry-run", "--canary"} & set(words)
        if changes and reader is not None:
            for _ in range(self._deaths):
                self._kill(command, reader)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=self._directory
        )
        self.said = done.stderr
        codes = (code,) if isinstance(code, int) else code
        assert done.returncode in codes, (words, done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout) if done.stdout else None

    def _kill(self, command: list[str], reader: Reader) -> None:
        """Start a command, and kill it after some changes; counting pauses it."""
        before = reader.look()
        # Server, record and allocation change two rows each, a shard one.
        enough = self._rng.randint(1, max(2, len(before) // (2 * self._deaths)))
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self._directory
        )
        deadline = time.monotonic() + SECONDS
        while process.poll() is None:
            assert time.monotonic() < deadline, command
            process.send_signal(signal.SIGSTOP)
            if len(reader.look() ^ before) >= enough:
                process.kill()
            else:
                process.send_signal(signal.SIGCONT)
                time.sleep(self._rng.uniform(0, _SLICE))
        self.killed += process.returncode == -signal.SIGKILL
        reader.look()
