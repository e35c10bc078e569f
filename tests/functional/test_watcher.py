# SPDX-License-Identifier: Apache-2.0

"""Two hundred who wait for nodes of a fake Ironic, and every request that it costs.

Time passes only when a test lets it, on the watcher's side and on Ironic's.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.client import IronicClient, NodeFilter
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.watcher import Watcher
from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer
from tests.clock import PATIENCE, VirtualClock

COUNT = 200
INTERVAL = 8.0
POLLER = "ironic-virt-watcher"


def until_active(node: Node | None) -> str | None:
    if node is None:
        raise LookupError("the node is gone")
    if node.provision_state == "deploy failed":
        raise exceptions.DeployFailed(node.uuid, None, "failed", last_error=node.last_error)
    return node.uuid if node.provision_state == "active" else None


class Waiting:
    """Everybody who waits; a thread each."""

    def __init__(self, watcher: Watcher, nodes: list[str]) -> None:
        self.ended: dict[str, str | Exception] = {}
        self._threads = {
            node: threading.Thread(target=self._wait, args=(watcher, node), daemon=True)
            for node in nodes
        }
        for thread in self._threads.values():
            thread.start()

    def _wait(self, watcher: Watcher, node: str) -> None:
        try:
            self.ended[node] = watcher.wait(
                node, until_active, what="be active", timeout=0, state="deploying"
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
        others = self.fake.add_nodes(50, shard="theirs")
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
        self.waiting = Waiting(self.watcher, self.nodes)
        self.clock.wait_for_sleepers(COUNT + 1)
        self.fake.requests.clear()

    def tick(self, seconds: float = INTERVAL) -> tuple[list[str], list[str]]:
        """Let the poller look once; the states that it listed and the nodes it asked for."""
        self.fake.requests.clear()
        self.clock.advance(seconds)
        self.clock.wait_until_asleep(POLLER)
        lists, gets = [], []
        for entry in self.fake.requests:
            assert entry.method == "GET"
            if entry.path == "/v1/nodes":
                assert "shard=ours" in entry.query
                assert "properties" not in entry.query
                lists.append(entry.query.partition("provision_state=")[2].partition("&")[0])
            else:
                gets.append(entry.path.removeprefix("/v1/nodes/"))
        return lists, gets


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with FakeIronicServer(FakeIronic()) as server:
        stage = Stage(server, tmp_path / "ironic-virt.conf")
        yield stage
        stage.watcher.stop()
        stage.waiting.end_of(stage.nodes)
    # Only now is a request without an answer over.
    for thread in threading.enumerate():
        if thread.name == POLLER:
            thread.join(PATIENCE)


def test_a_tick_is_one_list_and_a_look_at_each_node_that_left(stage: Stage) -> None:
    fake, nodes = stage.fake, stage.nodes
    assert stage.tick() == (["deploying"], [])
    assert stage.tick() == (["deploying"], [])

    for node in nodes[:5]:
        fake.set_node(node, provision_state="active")
    fake.set_node(nodes[5], provision_state="deploy failed", last_error="no such image")
    fake.remove_node(nodes[6])
    lists, gets = stage.tick()
    assert lists == ["deploying"]
    assert sorted(gets) == sorted(nodes[:7])
    ended = stage.waiting.end_of(nodes[:7])
    assert ended[:5] == nodes[:5]
    assert isinstance(ended[5], exceptions.DeployFailed)
    assert ended[5].last_error == "no such image"
    assert isinstance(ended[6], LookupError)
    assert len(stage.waiting.ended) == 7

    assert stage.tick() == (["deploying"], []), "who has ended costs nothing any more"


def test_nodes_that_go_on_together_are_found_by_a_list(stage: Stage) -> None:
    for node in stage.nodes[:150]:
        stage.fake.set_node(node, provision_state="wait call-back")
    lists, gets = stage.tick()
    assert lists == ["deploying", "wait%20call-back"] or lists == ["deploying", "wait+call-back"]
    assert len(gets) == 1
    lists, gets = stage.tick()
    assert len(lists) == 2
    assert gets == []


@pytest.mark.parametrize("fault", ["reset", "truncate", "status 503", "status 500"])
def test_while_ironic_fails_a_tick_is_one_request_and_no_node_counts_as_gone(
    stage: Stage, fault: str
) -> None:
    kind, _, status = fault.partition(" ")
    make = getattr(stage.fake.faults, kind)
    make(*([int(status)] if status else []), count=None)
    for _ in range(3):
        assert stage.tick(5 * INTERVAL) == (["deploying"], [])
    assert stage.waiting.ended == {}
    stage.fake.faults.clear()
    for node in stage.nodes[:3]:
        stage.fake.set_node(node, provision_state="active")
    lists, gets = stage.tick(5 * INTERVAL)
    assert (lists, sorted(gets)) == (["deploying"], sorted(stage.nodes[:3]))
    assert stage.waiting.end_of(stage.nodes[:3]) == stage.nodes[:3]


def test_an_ironic_that_never_answers_keeps_nobody_from_stopping(stage: Stage) -> None:
    asked = threading.Event()
    stage.fake.faults.hang(count=None, when=lambda *request: asked.set() is None)
    stage.clock.advance(INTERVAL)
    assert asked.wait(PATIENCE)
    stage.watcher.stop()
    ended = stage.waiting.end_of(stage.nodes)
    assert all(isinstance(end, exceptions.WaitCancelled) for end in ended)
