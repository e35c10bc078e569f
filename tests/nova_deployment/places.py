# SPDX-License-Identifier: Apache-2.0

"""Two ``nova-compute`` of one host name, as on two machines: one serves, the other one waits."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ironic_virt.testing.fault_proxy import FaultProxy
from tests.nova_deployment.deployment import SHARDS, Deployment
from tests.nova_deployment.processes import SECONDS, wait_for

HOST = "compute-a"
ACTIVE, WAITING = "is active", "Standby: waiting"
TTL = 10

_NUMBERS = itertools.count(1)


class Place:
    """A machine with one of them, whose requests to Ironic are recorded.

    :param name: of its log, before a number.
    :param backend: the way from there to the backend of the lease, with its scheme.
    :param more: further options of ``[ironic]``.
    """

    def __init__(
        self,
        deployment: Deployment,
        name: str,
        ironic: FaultProxy,
        backend: str,
        *,
        host: str = HOST,
        **more: Any,
    ) -> None:
        self.ironic = ironic
        self._seen = 0
        options = {
            "shard": SHARDS.get(host),
            "endpoint_override": ironic.url,
            "standby_backend_url": backend,
            "standby_ttl": TTL,
        }
        self._deployment = deployment
        self._host, self._name = host, f"{name}-{next(_NUMBERS)}"
        self.program = deployment.start_compute(self._name, host, **{**options, **more})

    def start(self) -> None:
        """Start it after its end."""
        self._seen = len(self.program.text())
        self.program.start()

    def has_said(self, text: str) -> bool:
        """Whether the program has, since it was started last."""
        return text in self.program.text()[self._seen :]

    def wait_for(self, text: str, seconds: float = SECONDS) -> None:
        """Return when it says so."""

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

    def lease(self) -> tuple[int, str]:
        """What ``ironic-virt-fleet check`` says of it, with the file of this place."""
        return self._deployment.leases(self._host, self._name)

    def changes(self) -> int:
        """How many changes of Ironic were sent from here."""
        return sum(request.method != "GET" for request in self.ironic.requests)


def told(places: Iterable[Place]) -> dict[str, list[str]]:
    """What Ironic was told to make of each node, from all places, and has accepted."""
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
