# SPDX-License-Identifier: Apache-2.0

"""Nodes for the real Ironic, ready to be deployed to.

A few come through the API; thousands are clones of one of those, made in the
database.
"""

import json
import logging
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import requests
from oslo_concurrency import processutils

from tools.real_ironic import errors
from tools.real_ironic.scripts import SCRIPTS
from tools.real_ironic.service import RealIronic

# The last version in which a new node is in state "available" at once.
_CREATE_VERSION = "1.10"
_NEWEST_VERSION = "latest"
_POLL_SECONDS = 0.05
_POWER_SECONDS = 300.0
_REQUEST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """What nodes are made like.

    :ivar properties: Ironic's ``properties``: ``cpus``, ``memory_mb``, ``local_gb`` and so on.
    :ivar ports: how many network ports each node has.
    :ivar fields: any other field of a node, by its name in the API.
    """

    resource_class: str | None = "baremetal"
    properties: Mapping[str, Any] = field(
        default_factory=lambda: {
            "cpus": 8,
            "memory_mb": 16384,
            "local_gb": 100,
            "cpu_arch": "x86_64",
        }
    )
    traits: Sequence[str] = ()
    conductor_group: str = ""
    shard: str | None = None
    ports: int = 1
    fields: Mapping[str, Any] = field(default_factory=dict)


def create_nodes(
    ironic: RealIronic,
    count: int,
    template: NodeTemplate | None = None,
    *,
    name: str = "node-{}",
    seed: int = 0,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Create available, powered off nodes through the API.

    :param name: of each node; ``{}`` stands for its number, from 0.
    :param seed: makes the uuids and MAC addresses; use another one for more nodes.
    :returns: the nodes' uuids.
    :raises RealIronicError: when Ironic refuses.
    """
    template = NodeTemplate() if template is None else template
    rng = random.Random(f"create {seed}")
    api = _Api(ironic.url)
    uuids = [_uuid(rng) for _ in range(count)]
    for number, node in enumerate(uuids):
        body: dict[str, Any] = {
            "uuid": node,
            "name": name.format(number),
            "driver": "fake-hardware",
            "properties": dict(template.properties),
        }
        api.send("POST", "/v1/nodes", body, version=_CREATE_VERSION)
        later = {"resource_class": template.resource_class, **template.fields}
        later |= {"conductor_group": template.conductor_group, "shard": template.shard}
        patch = [
            {"op": "add", "path": f"/{key}", "value": value}
            for key, value in later.items()
            if value not in (None, "")
        ]
        if patch:
            api.send("PATCH", f"/v1/nodes/{node}", patch)
        if template.traits:
            api.send("PUT", f"/v1/nodes/{node}/traits", {"traits": list(template.traits)})
        for _ in range(template.ports):
            api.send("POST", "/v1/ports", {"node_uuid": node, "address": _mac(rng)})
        # Until it is set, a node's power state is unknown, and the node is not used.
        api.send("PUT", f"/v1/nodes/{node}/states/power", {"target": "power off"})
    deadline = time.monotonic() + _POWER_SECONDS
    for node in uuids:
        while not _is_settled(api.get(f"/v1/nodes/{node}/states"), api, node):
            if time.monotonic() > deadline:
                raise errors.RealIronicError(f"node {node} was not powered off in time")
            sleep(_POLL_SECONDS)
    return uuids


def clone_nodes(
    ironic: RealIronic,
    source: str,
    count: int,
    *,
    name: str = "clone-{}",
    seed: int = 0,
    differences: Callable[[int], Mapping[str, Any]] = lambda number: {},
) -> list[str]:
    """Clone one node in the database, as often as wanted; its ports are not cloned.

    :param source: the uuid of a node that has no instance.
    :param name: of each clone; ``{}`` stands for its number, from 0.
    :param seed: makes the uuids; use another one for more clones of any node.
    :param differences: columns of the clone with this number that differ from the source's,
        ``{"shard": "b"}`` for instance.
    :returns: the clones' uuids.
    """
    rng = random.Random(f"clone {seed}")
    uuids = [_uuid(rng) for _ in range(count)]
    clones = [
        {
            "uuid": clone,
            "name": name.format(number),
            **{key: _column(value) for key, value in differences(number).items()},
        }
        for number, clone in enumerate(uuids)
    ]
    try:
        processutils.execute(
            *(str(ironic.environment.python), str(SCRIPTS / "clone_nodes.py")),
            *(ironic.database_url, source),
            process_input=json.dumps(clones),
            # The URL may hold a password.
            loglevel=logging.NOTSET,
        )
    except processutils.ProcessExecutionError as exc:
        raise errors.RealIronicError(
            f"cloning node {source} failed:\n{(exc.stderr or '')[-3000:]}"
        ) from exc
    return uuids


class _Api:
    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()

    def send(
        self, method: str, path: str, body: object = None, *, version: str = _NEWEST_VERSION
    ) -> requests.Response:
        answer = self._session.request(
            method,
            f"{self._url}{path}",
            json=body,
            headers={"X-OpenStack-Ironic-API-Version": version},
            timeout=_REQUEST_SECONDS,
        )
        if not answer.ok:
            raise errors.RealIronicError(
                f"Ironic answers {method} {path} with {answer.status_code}: {answer.text}"
            )
        return answer

    def get(self, path: str) -> dict[str, Any]:
        body: dict[str, Any] = self.send("GET", path).json()
        return body


def _is_settled(states: Mapping[str, Any], api: _Api, node: str) -> bool:
    """Whether the node is off and not locked any more."""
    if states["power_state"] != "power off" or states["target_power_state"] is not None:
        return False
    return api.get(f"/v1/nodes/{node}?fields=reservation")["reservation"] is None


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _mac(rng: random.Random) -> str:
    """A MAC address from the range that is for local use."""
    return ":".join(f"{byte:02x}" for byte in (0x02, *rng.randbytes(5)))


def _column(value: object) -> object:
    """As the database holds it: what has parts is JSON text."""
    return json.dumps(value) if isinstance(value, Mapping | list) else value
