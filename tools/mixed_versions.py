# SPDX-License-Identifier: Apache-2.0

"""Run reference services of two versions in one cloud, in random orders of upgrades.

    python -m tools.mixed_versions [COMMIT] [--orders N] [--seed N]

Two services, each with its own shard of a fake Ironic, have up to two processes each: one is
active, and one waits for its lease.  In an order, processes of the version of a commit and of this
checkout are started, stopped and killed at random, while commands of either version create and
delete servers.  Then each server that was created is on one node, onto which it was deployed once,
and after a delete nothing is left.  The next order begins with the processes of the last one.

If the two versions have different tables, an order goes from one version to the other as a whole:
each refuses the other's tables in one line, and takes the servers over into an empty database.

The exit status is 1 if an order failed.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ironic_virt.testing.fake_ironic import Durations, FakeIronic, FakeIronicServer, RealClock
from tests import programs

_ROOT = Path(__file__).parents[1]
_HOSTS, _NODES, _PROCESSES, _STEPS, _PAUSE, _SECONDS = "ab", 8, 2, 10, 0.7, 120.0
_ACTS = ("start", "start", "start", "stop", "kill", "create", "create", "delete")
_BUILD = (
    *("--flavor", "metal", "--image", "https://images.example.test/a.raw"),
    *("--image-checksum", "ab" * 16),
)
_REFUSALS = ("upgrade this package", "use an empty database")
_NO_NODE, _LIST = "No valid host", ("node", "list", "-f", "json")


def export(commit: str, directory: Path) -> Path:
    """Write the tree of a commit, with its entry points as if it was installed there."""
    packed = subprocess.run(
        ["git", "archive", commit], cwd=_ROOT, check=True, stdout=subprocess.PIPE
    ).stdout
    directory.mkdir()
    # Python's filter of what an archive may do came with 3.11.4.
    subprocess.run(["tar", "-xC", directory], input=packed, check=True)
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    lines = []
    for group, names in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in names.items())]
    metadata = directory / "ironic_virt-0.0.1.dist-info"
    metadata.mkdir()
    metadata.joinpath("METADATA").write_text("Name: ironic-virt\nVersion: 0.0.1\n")
    metadata.joinpath("entry_points.txt").write_text("\n".join(lines) + "\n")
    return directory


class Version(NamedTuple):
    """A version's programs."""

    name: str
    tree: Path

    def start(
        self, log: Path, *words: str, module: str = programs.COMMAND
    ) -> subprocess.Popen[bytes]:
        """Start a program; its output goes to the end of a file, errors of commands to another."""
        errors = log if module == programs.COMPUTE else log.with_name("errors")
        with log.open("ab") as stdout, errors.open("ab") as stderr:
            return programs.start(module, *words, stdout=stdout, stderr=stderr, tree=self.tree)


class Process(NamedTuple):
    """A process of a service."""

    version: Version
    started: subprocess.Popen[bytes]


class Cloud:
    """The services of one database, over a fake Ironic, from order to order.

    :ivar wanted: the names of the servers that users want.
    :ivar deployments: how often Ironic took a request to deploy an instance, by its uuid.
    :ivar current: the version whose tables the database has.
    :ivar readers: the versions that can read them, in turn.
    :ivar counts: what was done, and how often in the midst of a build.
    """

    def __init__(self, directory: Path, versions: list[Version]) -> None:
        self._directory, self._versions = directory, versions
        self.rng = random.Random()
        self.fake = FakeIronic(
            clock=RealClock(),
            durations=Durations(deploy=(0.3, 3), undeploy=(0, 0.5), clean=(0, 0.5)),
            power_follows_deploy=True,
        )
        for number in range(_NODES):
            shard = _HOSTS[number % len(_HOSTS)]
            self.fake.add_node(resource_class="metal", shard=shard, deploy_interface="direct")
        self.deployments, self.counts = Counter[str](), Counter[str]()
        self.fake.requests.listener = self._count
        self.server = FakeIronicServer(self.fake)
        self.server.start()
        self._services: dict[str, list[Process]] = {host: [] for host in _HOSTS}
        self.wanted: list[str] = []
        self.current, self.readers = versions[0], deque(versions)
        for host in _HOSTS:
            directory.joinpath(f"{host}.conf").write_text(
                f"[DEFAULT]\nhost = {host}\nreport_interval = 1\nstate_path = {directory}\n"
                f"[database]\nconnection = sqlite:///{directory}/db\nsqlite_synchronous = false\n"
                "[compute]\ntask_interval = 0.2\nresource_refresh_interval = 1\n"
                f"[ironic]\nauth_type = none\nendpoint_override = {self.server.url}\n"
                f"shard_key = {host}\napi_retry_interval = 1\nstandby_ttl = 5\n"
                f"standby_backend_url = file://{directory}/leases\n"
            )

    def _count(self, entry: Any) -> None:
        if entry.method == "PUT" and entry.path.endswith("/states/provision"):
            uuid = self.fake.node(entry.path.split("/")[-3])["instance_uuid"]
            self.deployments[uuid] += entry.status == 202 and entry.body["target"] == "active"

    # -- programs -------------------------------------------------------------

    def run(self, version: Version, *words: str) -> tuple[int, str, str]:
        """Run ``ironic-virt`` of a version: its exit code, output and errors."""
        output, errors = (self._directory / name for name in ("output", "errors"))
        for file in (output, errors):
            file.write_text("")
        words = ("--config-file", str(self._directory / "a.conf"), *words)
        code = version.start(output, *words).wait(_SECONDS)
        return code, output.read_text(), errors.read_text()

    def command(self, *words: str) -> str:
        """Run ``ironic-virt`` of the version whose turn it is; what it prints."""
        self._check_processes()
        self.readers.rotate()
        code, printed, errors = self.run(self.readers[0], *words)
        assert code == 0, f"{words} of {self.readers[0].name}: exit code {code}: {errors}"
        return printed

    def _check_processes(self) -> None:
        for host, processes in self._services.items():
            codes = [process.started.poll() for process in processes]
            assert set(codes) <= {None}, f"{host} has ended by itself: {codes}"

    def start(self, host: str, version: Version) -> Process:
        """Start a process of a service, which waits if another one is active."""
        words = ("--config-file", str(self._directory / f"{host}.conf"))
        started = version.start(self._directory / "log", *words, module=programs.COMPUTE)
        process = Process(version, started)
        self._services[host].append(process)
        return process

    def stop(self, host: str, process: Process, signum: signal.Signals = signal.SIGTERM) -> None:
        """End a process of a service."""
        assert process.started.poll() is None, f"{host}: exit code {process.started.returncode}"
        process.started.send_signal(signum)
        code = process.started.wait(_SECONDS)
        # A signal ends one that has hardly begun.
        assert code in (0, -signum), f"{host}: exit code {code} after {signum.name}"
        self._services[host].remove(process)

    # -- what happens ---------------------------------------------------------

    def begin(self, version: Version) -> None:
        """Start all services on an empty database."""
        for file in self._directory.glob("db*"):
            file.unlink()
        for host in _HOSTS:
            self.start(host, version)
        self.current, self.readers = version, deque([version])
        wait_for("the tables", lambda: not self.run(version, *_LIST)[0], self._check_processes)
        self.command("flavor", "create", "metal", "--resource-class", "metal")
        wait_for("the nodes", lambda: len(json.loads(self.command(*_LIST))) == _NODES)
        refused, _, errors = self.run(self.other, "flavor", "list")
        is_refusal = len(errors.splitlines()) == 1 and any(one in errors for one in _REFUSALS)
        assert is_refusal or not refused, f"{self.other.name}, tables of {version.name}: {errors}"
        self.readers = deque([version] if refused else self._versions)

    @property
    def other(self) -> Version:
        """The version that is not current."""
        return self._versions[self._versions[0] is self.current]

    def _draw_reader(self) -> Version:
        return self.rng.choice(sorted(self.readers, key=lambda version: version.name))

    def step(self) -> str:
        """Do something; what it was."""
        rng, host = self.rng, self.rng.choice(_HOSTS)
        processes, version = self._services[host], self._draw_reader()
        is_possible = {
            "start": len(processes) < _PROCESSES,
            "create": len(self.wanted) < _NODES // 2,
            "delete": bool(self.wanted),
        }
        act = rng.choice([act for act in _ACTS if is_possible.get(act, processes)])
        states = {node["provision_state"] for node in self.fake.nodes()}
        self.counts[act + " in the midst of a build" * ("deploying" in states)] += 1
        if act == "start":
            self.start(host, version)
            return f"{host} has a process more, of {version.name}"
        if act in ("stop", "kill"):
            process = rng.choice(processes)
            self.stop(host, process, signal.SIGTERM if act == "stop" else signal.SIGKILL)
            return f"{act} one of {host}, of {process.version.name}"
        if act == "create":
            # Nobody waits: the next step may come in the midst of the build.
            name = f"server-{rng.getrandbits(32):08x}"
            code, _, errors = self.run(version, "server", "create", *_BUILD, name)
            # While services are down, or nodes are being cleaned, none may be free.
            assert code == 0 or _NO_NODE in errors, errors
            self.wanted += [] if code else [name]
        else:
            self.command("server", "delete", self.wanted.pop(0))
        return f"{act} by {version.name}, {len(self.wanted)} servers are wanted"

    def change_tables(self) -> str:
        """Go to the other version, whose tables are others, with all servers."""
        self.settle()
        servers, other = {one["ID"]: one["Name"] for one in self.servers()}, self.other
        for host in _HOSTS:
            for process in self._services[host][::-1]:
                self.stop(host, process)
        refusing = self.start("a", other).started
        assert refusing.wait(_SECONDS), f"{other.name} takes the tables of another version"
        self._services["a"].clear()
        self.begin(other)
        nodes = [node["uuid"] for node in self.fake.nodes() if node["instance_uuid"] in servers]
        if nodes:
            self.command("server", "adopt", "--flavor", "metal", *nodes)
        assert {one["ID"]: one["Name"] for one in self.servers()} == servers
        return f"{len(servers)} servers and their tables are of {other.name}"

    # -- what must be so ------------------------------------------------------

    def servers(self) -> list[dict[str, Any]]:
        """The servers in the records."""
        listed: list[dict[str, Any]] = json.loads(self.command("server", "list", "-f", "json"))
        return listed

    def active(self) -> dict[str, str]:
        """The node of each server that is deployed, as Ironic has it."""
        nodes = [node for node in self.fake.nodes() if node["provision_state"] == "active"]
        found = {node["instance_uuid"]: node["uuid"] for node in nodes}
        assert len(found) == len(nodes), f"doubled: {len(nodes)} nodes have {found}"
        return found

    def settle(self) -> None:
        """Let all builds end; each server is on the one node that the records name."""
        for host in _HOSTS:
            if not self._services[host]:
                self.start(host, self._draw_reader())

        def is_settled() -> bool:
            listed = self.servers()
            assert {one["Name"] for one in listed} >= set(self.wanted), f"lost: {listed}"
            statuses = Counter(one["Status"] for one in listed)
            assert not statuses["ERROR"], listed
            return len(listed) == len(self.wanted) == statuses["ACTIVE"]

        wait_for("the deployments", is_settled)
        places = {one["ID"]: one["Node"] for one in self.servers()}
        assert places == self.active(), f"{places} by the records, {self.active()} by Ironic"
        assert max(self.deployments.values(), default=0) <= 1, f"doubled: {self.deployments}"

    def _is_clean(self) -> bool:
        nodes = [(node["provision_state"], node["instance_uuid"]) for node in self.fake.nodes()]
        return set(nodes) == {("available", None)} and not self.servers()

    def close(self) -> None:
        """End all processes."""
        for processes in self._services.values():
            for process in processes:
                process.started.kill()
        self.server.stop()

    def run_order(self, seed: int) -> None:
        """Run one random order of upgrades and rollbacks."""
        self.rng.seed(seed)
        print(f"order {seed}:", flush=True)
        for number in range(_STEPS):
            if len(self.readers) == 1 and number == _STEPS // 2:
                print(f"  {self.change_tables()}", flush=True)
            print(f"  {self.step()}", flush=True)
            # The processes run in real time: the next step comes at any point of a build.
            time.sleep(self.rng.uniform(0, _PAUSE))
        self.settle()
        while self.wanted:
            self.command("server", "delete", self.wanted.pop())
        wait_for("clean nodes and records", self._is_clean)


def wait_for(
    what: str, is_so: Callable[[], bool], check: Callable[[], None] = lambda: None
) -> None:
    """Wait until something is so; an AssertionError says that it never was."""
    deadline = time.monotonic() + _SECONDS
    while not is_so():
        check()
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        # Before the programs are asked again, each time by a process more.
        time.sleep(0.4)


def run_orders(seeds: range, versions: list[Version], directory: Path) -> list[int]:
    """Run random orders in one cloud, and in a new one after a failure; the seeds that failed."""
    failed, counts, cloud = list[int](), Counter[str](), None
    for seed in seeds:
        try:
            if cloud is None:
                place = directory / str(seed)
                place.mkdir()
                cloud = Cloud(place, versions)
                cloud.begin(versions[0])
            cloud.run_order(seed)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed.append(seed)
            print(f"order {seed}: FAILED: {error}\n{(place / 'log').read_text()[-4000:]}")
        if cloud is not None and (seed in failed or seed == seeds[-1]):
            counts += cloud.counts
            cloud.close()
            cloud = None
    print(*(f"{number} times {what}" for what, number in sorted(counts.items())), sep="\n")
    return failed


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.mixed_versions")
    parser.add_argument("commit", nargs="?", default="HEAD^", help="of the former version (HEAD^)")
    parser.add_argument("--orders", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one (0)")
    args = parser.parse_args()
    seeds, began = range(args.seed, args.seed + args.orders), time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        former = export(args.commit, Path(directory, "former"))
        versions = [Version("the former version", former), Version("this version", _ROOT)]
        failed = run_orders(seeds, versions, Path(directory))
    seconds = round(time.monotonic() - began)
    print(f"mixed versions: {args.orders} orders, {seconds} s, {len(failed)} failed: {failed}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
