# SPDX-License-Identifier: Apache-2.0

"""A compute service with nothing but a driver, on a real Ironic."""

import dataclasses
import itertools
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import requests
from oslo_config import cfg

from ironic_virt import virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import KeystoneChannel
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.driver import IronicDriver
from ironic_virt.driver.claim import KEY_PREFIX
from ironic_virt.sharding.policy import Policy
from tests import compute_service
from tests.compute_service import FLAVOR, OTHER_IMAGE
from tests.crashing import CrashingChannel
from tools import real_ironic

SECONDS = 180.0
"""More than anything should take that is waited for."""

SEEDS = itertools.count(1000)
"""Nodes of different tests must not have the same uuids."""


_PATIENT = {
    "api_max_retries": 180,
    "timeout": 180,
    "serial_console_state_timeout": 180,
    "vnc_console_state_timeout": 180,
    "allocation_timeout": 180,
}
"""Ironic may be slow where a test is not about that; the other waits are longer anyway."""


def write_conf(directory: Path, ironic: real_ironic.RealIronic, **options: Any) -> Path:
    """An operator's file."""
    usual = {"auth_type": "none", "endpoint_override": ironic.url, "api_retry_interval": 1}
    lines = ["[DEFAULT]", "host = compute1", "[ironic]"]
    lines += [f"{name} = {value}" for name, value in (usual | _PATIENT | options).items()]
    path = directory / "ironic-virt.conf"
    path.write_text("\n".join(lines) + "\n")
    return path


def new_nodes(ironic: real_ironic.RealIronic, count: int, **like: Any) -> list[str]:
    """Nodes that are free.

    :param like: see :class:`real_ironic.NodeTemplate`.
    """
    seed = next(SEEDS)
    template = real_ironic.NodeTemplate(**like)
    return real_ironic.create_nodes(ironic, count, template, name=f"new-{seed}-{{}}", seed=seed)


def node_of(instance: virt.Instance) -> str:
    """Where an instance is placed."""
    assert instance.node is not None
    return instance.node


def flavor(**extra_specs: str) -> virt.Flavor:
    """The flavor with extra specs; ``__`` stands for the colon in their names."""
    specs = {name.replace("__", ":"): value for name, value in extra_specs.items()}
    return dataclasses.replace(FLAVOR, extra_specs=specs)


class Service(compute_service.Service):
    """A service whose instances have a config drive."""

    def config_drive(self, request: virt.DeployRequest) -> virt.ConfigDrive:
        return virt.ConfigDrive(meta_data={"uuid": request.instance.uuid}, user_data="#!/bin/sh")

    def rebuild(
        self,
        instance: virt.Instance,
        image: virt.ImageMeta = OTHER_IMAGE,
        request_id: str | None = "req-1",
    ) -> None:
        """Have another image put on, as a compute service does."""
        self.driver.rebuild(virt.DeployRequest(instance, image, request_id=request_id))


class _DyingService(Service):
    """A service whose process dies at a request."""

    def __init__(self, config: Path, at: int, *, after: bool, starting: bool) -> None:
        self._at, self._after = at if starting else 0, after
        super().__init__(config)
        if not starting:
            self.channel.die_at(at)

    def make_driver(self, options: cfg.ConfigOpts) -> IronicDriver:
        channel = KeystoneChannel.from_conf(options)
        self.channel = CrashingChannel(channel, self._at, self._after, every_poll=False)
        client = IronicClient(self.channel)

        def pause(condition: threading.Condition, seconds: float | None) -> None:
            if threading.current_thread().name != "ironic-virt-watcher":
                self.channel.check()
                seconds = 0.05
            condition.wait(seconds)

        watcher = Watcher(
            client.single_try(),
            node_filter=lambda: Policy.from_conf(options, self.host).target.node_filter(),
            interval=1.0,
            pause=pause,
        )
        return IronicDriver(options, self, client=client, watcher=watcher)


def dying_service(config: Path, at: int, *, after: bool, starting: bool = True) -> Service:
    """A service that dies at its request number ``at``, before or after it is carried out.

    :param starting: counted from when it is started; else from when that is over.
    """
    return _DyingService(config, at, after=after, starting=starting)


class Operator:
    """Somebody else who acts on nodes, by the same API."""

    def __init__(self, ironic: real_ironic.RealIronic) -> None:
        self._ironic = ironic
        self._url = ironic.url

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that must succeed, as soon as nobody works on the node."""
        deadline = time.monotonic() + SECONDS
        while True:
            answer = requests.request(
                method,
                f"{self._url}/v1{path}",
                json=body,
                headers={"X-OpenStack-Ironic-API-Version": "latest"},
                timeout=SECONDS,
            )
            if not _is_locked(answer) or time.monotonic() > deadline:
                answer.raise_for_status()
                return answer.json() if answer.content else None
            time.sleep(0.1)

    def node(self, node: str) -> dict[str, Any]:
        """Everything of a node that doesn't change by itself."""
        seen: dict[str, Any] = self.request("GET", f"/nodes/{node}")
        for noise in ("updated_at", "provision_updated_at", "links", "driver_internal_info"):
            seen.pop(noise, None)
        # How often it was written to for its instance says nothing of it.
        info = seen["instance_info"]
        seen["instance_info"] = {
            **{key: value for key, value in info.items() if not key.startswith(KEY_PREFIX)},
            **{key[:-12]: "" for key in info if key.startswith(KEY_PREFIX)},
        }
        return seen

    def vifs(self, node: str) -> list[str]:
        return [vif["id"] for vif in self.request("GET", f"/nodes/{node}/vifs")["vifs"]]

    def patch(self, node: str, **fields: Any) -> None:
        """Set fields; ``None`` removes one."""
        self.request(
            "PATCH",
            f"/nodes/{node}",
            [
                {"op": "remove", "path": f"/{name}"}
                if value is None
                else {"op": "add", "path": f"/{name}", "value": value}
                for name, value in fields.items()
            ],
        )

    def force(self, node: str, **columns: Any) -> None:
        """Bring a node into a state that fake hardware passes too quickly, or never reaches."""
        self.force_each({node: columns})

    def force_each(self, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        """Bring nodes into such states, each with its own columns."""
        changes = []
        for node, columns in nodes.items():
            assignments = ", ".join(f"{name} = :{name}" for name in columns)
            statement = f"UPDATE nodes SET {assignments} WHERE uuid = :uuid"
            changes.append((statement, {"uuid": node, **columns}))
        self.execute(*changes)

    def execute(self, *statements: tuple[str, Mapping[str, Any]]) -> list[Any]:
        """Have statements with their values executed in Ironic's database.

        :returns: the first column of what the last one has found.
        """
        script = (
            "import json, sys, sqlalchemy as sa\n"
            "with sa.create_engine(sys.argv[1]).begin() as connection:\n"
            "    for statement, values in json.load(sys.stdin):\n"
            "        found = connection.execute(sa.text(statement), values)\n"
            "    print(json.dumps(list(found.scalars()) if found.returns_rows else []))\n"
        )
        done = subprocess.run(
            [self._ironic.environment.python, "-c", script, self._ironic.database_url],
            input=json.dumps(statements),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        found: list[Any] = json.loads(done.stdout)
        return found

    def kept_by_ironic(self, node: str) -> dict[str, Any]:
        """A node's ``instance_info`` as its conductor has it; the API hides some of it."""
        statement = "SELECT instance_info FROM nodes WHERE uuid = :node"
        kept: dict[str, Any] = json.loads(self.execute((statement, {"node": node}))[0])
        return kept

    def provision(self, node: str, verb: str) -> None:
        """Ask for a provision state."""
        self.request("PUT", f"/nodes/{node}/states/provision", {"target": verb})

    def at_rest(self, node: str) -> dict[str, Any]:
        """The node when nobody works on it any more: what has changed is seen before that."""
        return self.wait(node, lambda seen: True)

    def wait(self, node: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The node as soon as it is as wanted and unlocked."""
        deadline = time.monotonic() + SECONDS
        while True:
            seen = self.node(node)
            if wanted(seen) and seen["reservation"] is None:
                return seen
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)

    def wait_for_state(self, node: str, state: str) -> dict[str, Any]:
        """The node when it is in a provision state."""
        return self.wait(node, lambda seen: seen["provision_state"] == state)


def _is_locked(answer: requests.Response) -> bool:
    return answer.status_code == HTTPStatus.CONFLICT and "is locked by host" in answer.text
