# SPDX-License-Identifier: Apache-2.0

"""How many requests Ironic gets when it comes back after ten minutes.

    python -m benchmarks.ironic_return [--nodes N]

Ten services of the simulation, on its virtual clock, wait for 200 deployments.  These go on
throughout, or end while Ironic is away.  The exit status is 1 if the first minute had more than
twice the requests of a steady one.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import sys
from collections import Counter

from ironic_virt.testing.fake_ironic import Durations
from tests.simulation.layouts import Layout
from tests.simulation.wire import Storm
from tests.simulation.world import World

_WAITS, _MOST = 20, 2.0
_SHARDS = [str(number) for number in range(10)]
_TEN = Layout(
    "ten", tuple({"shard_key": one} for one in _SHARDS), tuple((one, "") for one in _SHARDS)
)
_DEPLOYMENTS = {"go on": (7200.0, 7200.0), "end meanwhile": (600.0, 900.0)}
_KINDS = ("refused", "hang", "503")
"""How requests fail while Ironic is away; see :data:`tests.simulation.wire.KINDS`."""
_STEADY, _AWAY, _BACK = 5, 10, 20
"""Minutes: one in which nothing changes, and those in which Ironic goes and comes back."""


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
        for name in world.hosts:
            own = [node for node, offer in world.offers.items() if offer.host == name]
            for node in own[:_WAITS]:
                world.users.create(node)
        world.scheduler.run(60.0 * (_BACK + 1) - 1)
    assert len(world.instances.live()) == _WAITS * len(_SHARDS)
    return sent


def main() -> int:
    """Print a line for each way of being away."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ironic_return")
    parser.add_argument("--nodes", type=int, default=1000, help="of all services (1,000)")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    largest = 0.0
    for name, deploy in _DEPLOYMENTS.items():
        for kind in _KINDS:
            sent = requests_by_minute(kind, deploy, args.nodes // len(_SHARDS))
            ratio = sent[_BACK] / sent[_STEADY]
            largest = max(largest, ratio)
            print(
                f"{args.nodes} nodes, deployments {name}, {kind}: {sent[_STEADY]} requests in a "
                f"steady minute, {sent[_BACK]} in the first one after, {ratio:.2f} times",
                flush=True,
            )
    print(f"return of Ironic: at most {largest:.2f} times a steady minute (allowed: {_MOST:g})")
    return largest > _MOST


if __name__ == "__main__":
    sys.exit(main())
