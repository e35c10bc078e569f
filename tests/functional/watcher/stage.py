# SPDX-License-Identifier: Apache-2.0

"""Five hundred who wait for nodes of a fake Ironic, and every request that it costs.

Time passes only when a test lets it, on the watcher's side and on Ironic's.
"""

from __future__ import annotations

import dataclasses
import random
import threading
import urllib.parse
from collections.abc import Collection, Mapping
from pathlib import Path

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.waiting.waiters import FIELDS
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests.clock import PATIENCE, VirtualClock

COUNT = 500
INTERVAL = 8.0
POLLER = "ironic-virt-watcher"


def until_active(node: Node | None) -> str | None:
    if node is None:
        raise LookupError("the node is gone")
    if node.provision_state == "deploy failed":
        raise exceptions.DeployFailed(node.uuid, None, "failed", last_error=node.last_error)
    return node.uuid if node.provision_state == "active" else None


@dataclasses.dataclass
class Limits:
    """What ends a wait beside its node.

    :ivar timeout: seconds; 0: no limit.
    :ivar cancelled: why the wait is no longer wanted.
    """

    timeout: float = 0
    cancelled: str | None = None

    def abort(self) -> str | None:
        return self.cancelled


class Waiting:
    """Everybody who waits; a thread each."""

    def __init__(self, watcher: Watcher, limits: Mapping[str, Limits | None]) -> None:
        self.ended: dict[str, str | Exception] = {}
        self._threads = {
            node: threading.Thread(target=self._wait, args=(watcher, node, limit), daemon=True)
            for node, limit in limits.items()
        }
        for thread in self._threads.values():
            thread.start()

    def _wait(self, watcher: Watcher, node: str, limits: Limits | None) -> None:
        try:
            self.ended[node] = watcher.wait(
                node,
                until_active,
                what="be active",
                timeout=limits.timeout if limits else 0,
                state="deploying",
                abort=limits.abort if limits else None,
            )
        except Exception as exc:
            self.ended[node] = exc

    def end_of(self, nodes: list[str]) -> list[str | Exception]:
        """How these waits ended; they must have, or be about to."""
        for node in nodes:
            self._threads[node].join(PATIENCE)
        return [self.ended[node] for node in nodes]


class Stage:
    """An Ironic over HTTP whose nodes deploy, and a service that waits for its own."""

    def __init__(self, server: FakeIronicServer, config: Path) -> None:
        self.fake = server.fake
        self.nodes = self.fake.add_nodes(COUNT, shard="ours")
        others = self.fake.add_nodes(COUNT, shard="theirs")
        for node in self.nodes + others:
            self.fake.set_node(node, provision_state="deploying", target_provision_state="active")
        config.write_text(f"[ironic]\nauth_type = none\nendpoint_override = {server.url}\n")
        client = IronicClient.from_conf(conf.load([str(config)]))
        client.list_nodes(NodeFilter(instance_uuid="0" * 8 + "-0000-0000-0000-" + "0" * 12))
        self.clock = VirtualClock()
        self.watcher = Watcher(
            client.single_try(),
            node_filter=lambda: NodeFilter(shard="ours"),
            interval=INTERVAL,
            clock=self.clock,
            rng=random.Random(0),
            pause=self.clock.pause,
        )
        self.waiting: Waiting | None = None

    def begin(self, limits: Mapping[str, Limits] | None = None) -> Waiting:
        """Wait for every node of ours; none is looked at yet."""
        self.waiting = Waiting(self.watcher, dict.fromkeys(self.nodes) | dict(limits or {}))
        self.clock.wait_for_sleepers(COUNT + 1)
        self.fake.requests.clear()
        return self.waiting

    def end(self) -> None:
        """Stop the watcher, and see everybody off."""
        self.watcher.stop()
        if self.waiting is not None:
            self.waiting.end_of(self.nodes)

    def tick(self, seconds: float = INTERVAL) -> tuple[list[str], list[str]]:
        """Let the poller look once; the states that it listed and the nodes it asked for."""
        self.fake.requests.clear()
        self.clock.advance(seconds)
        self.clock.wait_until_asleep(POLLER)
        lists, gets = [], []
        for entry in self.fake.requests:
            assert entry.method == "GET"
            if entry.path == "/v1/nodes":
                query = dict(urllib.parse.parse_qsl(entry.query))
                assert query["shard"] == "ours"
                assert set(query["fields"].split(",")) == {*FIELDS, "shard"}
                lists.append(query["provision_state"])
            else:
                gets.append(entry.path.removeprefix("/v1/nodes/"))
        return lists, gets


def pollers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == POLLER]


def wait_for_pollers_to_end() -> None:
    for thread in pollers():
        thread.join(PATIENCE)
    assert not pollers(), "a poller outlives those who waited"


def new_threads(before: Collection[threading.Thread]) -> set[threading.Thread]:
    """The threads that live now and did not then; one of then, of another test, may have ended."""
    return set(threading.enumerate()) - set(before)
