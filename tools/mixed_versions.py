# SPDX-License-Identifier: Apache-2.0

"""Run reference services of two versions on one database, in random orders of upgrades.

    python -m tools.mixed_versions [COMMIT] [--orders N] [--seed N]

Two services, each with its own shard of a fake Ironic, begin with the version of a commit.  Then
they are upgraded to this checkout and rolled back at random, while users of either version create
and delete servers.  In the end each server that was created is on one node, and after a delete
nothing is left.  The exit status is 1 if an order failed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

from ironic_virt.testing.fake_ironic import Durations, FakeIronic, FakeIronicServer, RealClock

_ROOT = Path(__file__).parents[1]
_HOSTS, _NODES, _STEPS, _SECONDS = "ab", 6, 8, 180.0
_BUILD = (
    *("--flavor", "metal", "--image", "https://images.example.test/a.raw"),
    *("--image-checksum", "ab" * 16),
)
_RUN = "import sys; from ironic_virt.cmd.scripts import ironic_virt; sys.exit(ironic_virt())"


def export(commit: str, directory: Path) -> Path:
    """Write the tree of a commit, with its entry points as if it was installed there."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=_ROOT, check=True, stdout=subprocess.PIPE
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    lines = []
    for group, names in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in names.items())]
    metadata = directory / "ironic_virt-0.0.1.dist-info"
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text("Name: ironic-virt\nVersion: 0.0.1\n")
    metadata.joinpath("entry_points.txt").write_text("\n".join(lines) + "\n")
    return directory


class Cloud:
    """Two services of one database, over a fake Ironic.

    :param trees: the former version's and this one.
    """

    def __init__(self, directory: Path, trees: list[Path], rng: random.Random) -> None:
        self._directory, self._trees, self._rng = directory, trees, rng
        self.fake = FakeIronic(clock=RealClock(), durations=Durations(deploy=3, clean=1))
        for number in range(_NODES):
            shard = _HOSTS[number % len(_HOSTS)]
            self.fake.add_node(resource_class="metal", shard=shard, deploy_interface="direct")
        self.server = FakeIronicServer(self.fake)
        self.server.start()
        self._services: dict[str, subprocess.Popen[bytes]] = {}
        self.servers: list[str] = []
        for host in _HOSTS:
            directory.joinpath(f"{host}.conf").write_text(
                f"[DEFAULT]\nhost = {host}\n[database]\nconnection = sqlite:///{directory}/db\n"
                f"[ironic]\nauth_type = none\nendpoint_override = {self.server.url}\n"
                f"shard_key = {host}\napi_retry_interval = 1\n"
            )

    def _popen(self, tree: Path, *words: str) -> subprocess.Popen[bytes]:
        log = self._directory.joinpath("log").open("ab")
        environ = os.environ | {"PYTHONPATH": str(tree)}
        command = [sys.executable, *words]
        return subprocess.Popen(
            command, cwd=self._directory, env=environ, stdout=subprocess.PIPE, stderr=log
        )

    def start(self, host: str, tree: Path) -> None:
        """Start a service of a version; one that runs on the host is stopped first."""
        if host in self._services:
            self._services[host].send_signal(signal.SIGTERM)
            self._services[host].wait(_SECONDS)
        module = ("-m", "ironic_virt.cmd.compute", "--config-file", f"{host}.conf")
        self._services[host] = self._popen(tree, *module)

    def command(self, *words: str) -> str:
        """Run ``ironic-virt`` of either version; what it prints."""
        tree = self._rng.choice(self._trees)
        process = self._popen(tree, "-c", _RUN, "--config-file", "a.conf", *words)
        printed, _ = process.communicate(timeout=_SECONDS)
        assert process.returncode == 0, f"{words} of {tree}: exit code {process.returncode}"
        return printed.decode()

    def is_readable(self) -> bool:
        """Return True if the former version's commands can read the records."""
        words = ("--config-file", "a.conf", "flavor", "list")
        return self._popen(self._trees[0], "-c", _RUN, *words).wait(_SECONDS) == 0

    def step(self) -> str:
        """Do something; what it was."""
        act = self._rng.choice(["change", "change", "create", "delete"])
        if act == "change":
            host, tree = self._rng.choice(_HOSTS), self._rng.choice(self._trees)
            self.start(host, tree)
            return f"{host} is {'the former' if tree is self._trees[0] else 'this'} version"
        if act == "create" and len(self.servers) < _NODES // 2:
            self.servers.append(f"server-{self._rng.getrandbits(32):08x}")
            # Nobody waits: the next step may come in the midst of the build.
            self.command("server", "create", *_BUILD, self.servers[-1])
        elif act == "delete" and self.servers:
            self.command("server", "delete", self.servers.pop(0))
        return f"{act}, {len(self.servers)} servers are wanted"

    def active(self) -> list[str | None]:
        """Return the server of each deployed node, as Ironic has it."""
        return [
            node["instance_uuid"]
            for node in self.fake.nodes()
            if node["provision_state"] == "active"
        ]

    def names(self) -> set[str]:
        """The servers that are on a node that is deployed, by Ironic and by the records."""
        listed = json.loads(self.command("server", "list", "-f", "json"))
        active = self.active()
        names = {one["Name"] for one in listed if one["ID"] in active}
        assert len(names) == len(active), f"{len(active)} nodes are active with {names}"
        return names

    def is_clean(self) -> bool:
        """Return True if nothing of any server is left in Ironic."""
        nodes = self.fake.nodes()
        return all(
            node["provision_state"] == "available" and node["instance_uuid"] is None
            for node in nodes
        )

    def stop(self) -> None:
        """End all processes."""
        for process in self._services.values():
            process.kill()
            process.wait()
        self.server.stop()


def wait_for(what: str, is_so: Callable[[], bool], pause: float = 1) -> None:
    """Wait until something is so; an AssertionError says that it never was."""
    deadline = time.monotonic() + _SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(pause)


def run_order(seed: int, trees: list[Path], directory: Path) -> None:
    """Run one random order of upgrades and rollbacks."""
    rng = random.Random(seed)
    cloud = Cloud(directory, trees, rng)
    try:
        for host in _HOSTS:
            cloud.start(host, trees[0])
        wait_for("the records", cloud.is_readable)
        cloud.command("flavor", "create", "metal", "--resource-class", "metal")
        listed = ("node", "list", "-f", "json")
        wait_for("the nodes", lambda: len(json.loads(cloud.command(*listed))) == _NODES, pause=5)
        for _ in range(_STEPS):
            print(f"order {seed}: {cloud.step()}", flush=True)
        # A command is a process: it is asked when Ironic is done, and seldom.
        wait_for("active nodes", lambda: len(cloud.active()) == len(cloud.servers))
        wait_for("the servers", lambda: cloud.names() == set(cloud.servers), pause=5)
        for name in cloud.servers:
            cloud.command("server", "delete", name)
        wait_for("clean nodes", cloud.is_clean)
    finally:
        cloud.stop()


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.mixed_versions")
    parser.add_argument("commit", nargs="?", default="HEAD^", help="of the former version (HEAD^)")
    parser.add_argument("--orders", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one (0)")
    args = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as directory:
        former = export(args.commit, Path(directory, "former"))
        for seed in range(args.seed, args.seed + args.orders):
            order = Path(directory, str(seed))
            order.mkdir()
            try:
                run_order(seed, [former, _ROOT], order)
            except AssertionError as error:
                failed.append(seed)
                print(f"order {seed}: FAILED: {error}")
                print(order.joinpath("log").read_text()[-3000:])
    print(f"mixed versions: {args.orders} orders, {len(failed)} failed: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
