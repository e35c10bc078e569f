# SPDX-License-Identifier: Apache-2.0

"""How many requests Ironic, Placement and Keystone get when Ironic comes back.

    python -m benchmarks.ironic_return [--nodes N]

In three parts, with the environment of Nova:

* Ten services of the simulation, on its virtual clock, wait for 200 deployments while Ironic is
  away for ten minutes.  These go on throughout, or end meanwhile.
* Nova's in-tree driver waits for as many, as in the benchmark ``waiting``.  Time is real, and
  Ironic is away for one minute: longer changes nothing for those that wait.
* The resource periodic of a whole Nova with either driver, for a service's share of the nodes,
  while ten periods find no Ironic; the clock goes on by a minute from one to the next.  Services
  have no nodes in common, so ten ask ten times as much.

The exit status is 1 if our first minute after it has more than twice the requests of a steady
one, or more than 1.2 times as many as the in-tree driver's.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import sys
import time
import uuid
from collections import Counter
from typing import Any

from benchmarks.side import Side
from ironic_virt.testing.fake_ironic import Durations, FakeIronicServer
from ironic_virt.testing.fault_proxy import FaultProxy, Hang, Status
from tests.simulation.layouts import Layout
from tests.simulation.wire import Storm
from tests.simulation.world import World
from tests.tempest.keystone import keystone

_WAITS, _MOST, _MOST_OF_IN_TREE = 20, 2.0, 1.2
_SHARDS = [str(number) for number in range(10)]
_TEN = Layout(
    "ten", tuple({"shard_key": one} for one in _SHARDS), tuple((one, "") for one in _SHARDS)
)
_DEPLOYMENTS = {"go on": (7200.0, 7200.0), "end meanwhile": (600.0, 900.0)}
_KINDS = ("refused", "hang", "503")
"""How requests fail while Ironic is away; see :data:`tests.simulation.wire.KINDS`."""
_ALL_REPORTED, _STEADY, _AWAY, _BACK = 3, 5, 10, 20
"""Minutes: when all services have reported their nodes, one in which nothing changes, and those
in which Ironic goes and comes back."""
_CLASS = "baremetal-gold"
_CREDENTIALS = ("username", "password", "project_name", "user_domain_id", "project_domain_id")
_SERVICES = ("ironic", "placement", "keystone")

Figures = tuple[int, int]
"""The requests of a steady minute, and of the first one after Ironic's return."""


def requests_by_minute(kind: str, deploy: tuple[float, float], nodes: int) -> Counter[int]:
    """Return the requests that reached Ironic, by minute, until one after its return.

    :param deploy: how long a deployment takes, from and to, in seconds.
    :param nodes: of each service.
    """
    world, sent = World(0, 0.0, _TEN), Counter[int]()
    settings = world.fake.bm.settings
    world.fake.bm.settings = dataclasses.replace(settings, durations=Durations(deploy=deploy))
    for shard in _SHARDS * nodes:
        world.fake.add_node(resource_class="gold", shard=shard, deploy_interface="direct")
    world.fake.requests.listener = lambda entry: sent.update([int(world.scheduler.now) // 60])
    world.weather.storms.append(Storm(60.0 * _AWAY, 60.0 * _BACK, None, (kind,), 1.0))
    with world.in_place_of_threads():
        for number in range(len(_SHARDS)):
            world.start_host(f"compute{number + 1}")
            world.scheduler.run(world.scheduler.now + 12)
        world.scheduler.run(60.0 * _ALL_REPORTED)
        for name in world.hosts:
            own = [node for node, offer in world.offers.items() if offer.host == name]
            for node in own[:_WAITS]:
                world.users.create(node)
        world.scheduler.run(60.0 * (_BACK + 1) - 1)
    assert len(world.instances.live()) == _WAITS * len(_SHARDS)
    return sent


def in_tree_waits(kind: str) -> Figures:
    """Return the requests of the in-tree driver's waits."""
    with (
        FakeIronicServer(journal_size=0, threads=32, idle=600) as server,
        FaultProxy(server.url, remember=0) as proxy,
        Side("benchmarks.waiting_sides:InTree", url=proxy.url, shard="a") as side,
    ):
        sent: Counter[int] = Counter()
        nodes = server.fake.add_nodes(_WAITS * len(_SHARDS), shard="a", ports=0)
        pairs = [(str(uuid.uuid4()), node) for node in nodes]
        for instance, node in pairs:
            state = {"provision_state": "deploying", "target_provision_state": "active"}
            server.fake.set_node(node, instance_uuid=instance, **state)
        side.call("begin", pairs)
        for minute in range(3):
            server.fake.requests.listener = lambda entry, now=minute: sent.update([now])
            with contextlib.ExitStack() as outage:
                if minute == 1 and kind == "refused":
                    outage.enter_context(proxy.away())
                elif minute == 1:
                    fault = Hang() if kind == "hang" else Status(503)
                    outage.callback(fault.release)
                    outage.callback(proxy.rules.remove, proxy.add(fault))
                # The peer waits by real time: this is the minute that is counted.
                time.sleep(60)
    return sent[0], sent[2]


def periods(driver: str, nodes: int) -> dict[str, Figures]:
    """Return the requests of ten resource periods, by the service that gets them.

    :param driver: a key of ``tests.nova.deployment.DRIVERS``.
    :param nodes: of each service.
    """
    with (
        FakeIronicServer(journal_size=0) as server,
        FaultProxy(server.url, remember=0) as proxy,
        keystone(server.url) as url,
        FaultProxy(url.removesuffix("/v3")) as identity,
    ):
        options = dict.fromkeys(_CREDENTIALS, "nova")
        options |= {"auth_type": "v3password", "auth_url": f"{identity.url}/v3"}
        # A period without Ironic is over sooner.
        more: dict[str, Any] = {"driver": driver, "options": options | {"api_max_retries": 1}}
        server.fake.add_nodes(nodes, resource_class=_CLASS)
        with Side("benchmarks.nova_sides:Compute", url=proxy.url, **more) as side:

            def period(may_fail: bool = False) -> list[int]:
                before = len(identity.requests)
                figures = side.call("refresh", 1, may_fail)
                sent = [int(figures[f"{name}_requests"]) for name in _SERVICES[:2]]
                return [*sent, len(identity.requests) - before]

            side.call("start")
            steady = [period() for _ in range(_STEADY)][-2]
            with proxy.away():
                for _ in range(_BACK - _AWAY):
                    period(may_fail=True)
            back = period()
    ten = len(_SHARDS)
    return {name: (ten * steady[index], ten * back[index]) for index, name in enumerate(_SERVICES)}


def main() -> int:
    """Print a line for each way of being away, and for each driver and service."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ironic_return")
    parser.add_argument("--nodes", type=int, default=1000, help="of all services (1,000)")
    nodes = parser.parse_args().nodes
    logging.disable(logging.CRITICAL)
    share, over = nodes // len(_SHARDS), []

    def show(what: str, ours: Figures, peer: Figures) -> None:
        # The peer's waits that ended with the outage don't count: their builds have failed.
        is_measure = 2 * peer[1] > peer[0]
        if ours[1] > _MOST * ours[0] or (is_measure and ours[1] > _MOST_OF_IN_TREE * peer[1]):
            over.append(what)
        print(
            f"{what}: {ours[0]} requests in a steady minute, {ours[1]} in the first one after; "
            f"in-tree {peer[0]}, {peer[1]}",
            flush=True,
        )

    for kind in _KINDS:
        peer = in_tree_waits(kind)
        for name, deploy in _DEPLOYMENTS.items():
            sent = requests_by_minute(kind, deploy, share)
            show(f"waits, {kind}, deployments {name}", (sent[_STEADY], sent[_BACK]), peer)
    ours, in_tree = periods("ours", share), periods("in-tree", share)
    for service in _SERVICES:
        show(f"resource periods, {service}", ours[service], in_tree[service])
    print(f"return of Ironic, {nodes} nodes: over the limits: {over or 'nothing'}")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
