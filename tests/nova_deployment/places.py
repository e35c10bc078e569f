# SPDX-License-Identifier: Apache-2.0

"""Two ``nova-compute`` of one host name, as on two machines: one serves, the other one waits."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ironic_virt.testing.fault_proxy import FaultProxy
from tests.nova_deployment.deployment import SHARDS, Deployment
from tests.nova_deployment.machine import Machine
from tests.nova_deployment.people import Server
from tests.nova_deployment.processes import SECONDS, wait_for

HOST = "compute-a"
ACTIVE, WAITING = "is active", "Standby: waiting"
TTL = 10

Begin = Callable[..., "Place"]
"""Starts a place, given its name, what it has to say, and what a place takes."""

_NUMBERS = itertools.count(1)


class Place:
    """A machine with one of them, whose requests to Ironic are recorded.

    :param name: of its log, before a number.
    :param backend: the way from there to the backend of the lease, with its scheme; ``None``: it
        knows of no lease.
    :param package: as of :meth:`.Deployment.start_compute`, and so is ``machine``.
    :param more: further options of ``[ironic]``.
    """

    def __init__(
        self,
        deployment: Deployment,
        name: str,
        ironic: FaultProxy,
        backend: str | None,
        *,
        host: str = HOST,
        package: Path | None = None,
        machine: Machine | None = None,
        **more: Any,
    ) -> None:
        self.ironic = ironic
        self._seen = 0
        options = {"shard": SHARDS.get(host), "endpoint_override": ironic.url}
        if backend is not None:
            options |= {"standby_backend_url": backend, "standby_ttl": TTL}
        self._deployment = deployment
        self._host, self._name = host, f"{name}-{next(_NUMBERS)}"
        self.program = deployment.start_compute(
            self._name, host, package=package, machine=machine, **{**options, **more}
        )

    def start(self) -> None:
        """Start it after its end."""
        self._seen = len(self.program.text())
        self.program.start()

    def has_said(self, text: str) -> bool:
        """Whether the program has, since it was started last."""
        return text in self.program.text()[self._seen :]

    def wait_for(self, text: str, seconds: float = SECONDS) -> None:
        def said() -> bool:
            self.program.see_to_it()
            return self.has_said(text)

        wait_for(f"{text!r} of {self.program.name}", said, seconds)

    def wait_for_exit(self) -> int:
        """Wait for its end; its exit code."""
        wait_for(f"the end of {self.program.name}", lambda: not self.program.running)
        status = self.program.exit_status
        assert status is not None
        return status

    @property
    def has_learned(self) -> bool:
        """Whether it has written, while it waited, what makes a takeover quick."""
        return (self.program.directory / f"ironic-virt-{self._host}.json").exists()

    def lease(self) -> tuple[int, str]:
        """What ``ironic-virt-fleet check`` says of it, with the file of this place."""
        return self._deployment.leases(self._host, self._name)

    def changes(self) -> int:
        """How many changes of Ironic were sent from here."""
        return sum(request.method != "GET" for request in self.ironic.requests)


def told(places: Iterable[Place]) -> dict[str, list[str]]:
    """The provision requests for each node that Ironic accepted, from all places."""
    found: dict[str, list[str]] = {}
    requests = [request for place in places for request in place.ironic.requests]
    for request in sorted(requests, key=lambda one: one.when):
        accepted = request.method == "PUT" and request.status == 202
        if accepted and request.path.endswith("/states/provision"):
            found.setdefault(request.path.split("/")[3], []).append(request.body["target"])
    return found


def deployed(places: Iterable[Place]) -> Counter[str]:
    """How often each node was deployed to."""
    return Counter({node: targets.count("active") for node, targets in told(places).items()})


def all_active(deployment: Deployment) -> list[Server]:
    """All servers, when nothing is done to them any more."""
    servers = deployment.user.wait_for_servers("all servers built", lambda one: one.idle)
    assert {server.status for server in servers} == {"ACTIVE"}, servers
    return servers


def boot_slowly(deployment: Deployment, places: Sequence[Place], count: int = 4) -> None:
    """Begin to build servers; return when Ironic has begun to deploy all their nodes."""
    before = deployed(places).total()
    deployment.user.boot(count, host=HOST)
    wait_for("deployments", lambda: deployed(places).total() == before + count)
    assert any(server.status == "BUILD" for server in deployment.user.servers())


def delete_all(deployment: Deployment) -> None:
    deployment.user.delete(deployment.user.servers())
    wait_for("all servers gone", lambda: not deployment.user.servers())
    deployment.wait_for_no_leaks()
    deployment.wait_until_nodes_are_free()


def finish(deployment: Deployment, places: Sequence[Place]) -> None:
    """All that was begun comes to a good end, once."""
    servers = all_active(deployment)
    assert deployed(places) == Counter(server.node for server in servers)
    deployment.user.hard_reboot(servers[:1])
    all_active(deployment)
    delete_all(deployment)
