# SPDX-License-Identifier: Apache-2.0

"""Two operators at once with different plans, in its own process: it reads Nova's file.

python -m tests.nova.two_operators NOVA_CONF SEEDS
"""

import contextlib
import dataclasses
import datetime
import random
import sys
import tempfile
import threading
from pathlib import Path

from ironic_virt.fleet import nova_conf

# Nova's kind of threads has to be chosen before the rest of Nova is imported.
CONF = nova_conf.load([sys.argv[1]])

from ironic_virt.fleet import cells, lock  # noqa: E402
from ironic_virt.fleet.hosts import Hosts  # noqa: E402
from ironic_virt.fleet.plans import apply, journal  # noqa: E402
from ironic_virt.fleet.plans.nova_world import NovaWorld  # noqa: E402
from ironic_virt.fleet.plans.plan import Assumed, Change, Plan  # noqa: E402
from ironic_virt.fleet.stopped import Watched  # noqa: E402

A, TARGETS = "compute-a", ("compute-b", "compute-c")
NOW = datetime.datetime.now(datetime.UTC)
_FEW = 2


def made(world: NovaWorld, nodes: list[str], target: str) -> Plan:
    """A plan that gives nodes of the first service to another one."""
    changes = [Change(node, (A, target), (A, target)) for node in nodes]
    return Plan("move", NOW, {target: Assumed(target)}, changes)


def carry_out(plan: Plan, watched: Watched, directory: Path, name: str) -> None:
    """Begin again and again, a few nodes at a time, until nothing is left to do."""
    path = directory / name
    path.write_text(name)
    while True:
        with contextlib.suppress(lock.Locked), lock.held() as check:
            world = NovaWorld.from_conf(CONF, Hosts(), check)
            world = dataclasses.replace(world, watched=watched)
            with journal.opened(path) as book:
                reports = list(apply.run(plan, world, book, limit=_FEW))
            assert apply.Effect.FAILED not in {one.outcome for one in reports}, reports
            if not any(one.outcome is apply.Effect.WAITS for one in reports):
                return


def main(seeds: int) -> None:
    """See after each seed that each node has one owner, whose shard it has."""
    world = NovaWorld.from_conf(CONF, Hosts(), lambda: None)
    (cell,) = world.cells.values()
    own = [record.name for record in cells.records(cell) if record.host == A]
    watched = Watched({A: world.services()[A]})
    assert own
    for seed in range(seeds):
        rng = random.Random(seed)
        plans = [made(world, rng.sample(own, rng.randint(1, len(own))), one) for one in TARGETS]
        with tempfile.TemporaryDirectory() as directory:
            threads = [
                threading.Thread(
                    target=carry_out,
                    args=(plan, watched, Path(directory), plan.changes[0].host[1]),
                )
                for plan in plans
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        records = world.records(own)
        servers = world.servers(list(records.values()))
        shards = {uuid: world.node(uuid) for uuid in own}
        for uuid, record in records.items():
            node = shards[uuid]
            assert node is not None
            assert node.shard == record.host, (seed, uuid, node.shard, record.host)
            assert {one.host for one in servers.get(uuid, [])} <= {record.host}, (seed, uuid)
        planned = {change.node for plan in plans for change in plan.changes}
        assert {uuid for uuid, one in records.items() if one.host != A} == planned
        # Back to the first service, as by hand.
        for record in records.values():
            if record.host != A:
                put_back(world, cell, record.name)
        sys.stdout.write(f"{seed} {len(planned)}\n")


def put_back(world: NovaWorld, cell: cells.Cell, node: str) -> None:
    """Give a node, its record and its server to the first service."""
    import sqlalchemy as sa
    from nova.db.main import api as main_db
    from nova.db.main import models

    world.client.patch_node(node, [{"op": "add", "path": "/shard", "value": A}])
    with main_db.get_context_manager(cell.context).writer.using(cell.context) as session:
        for table, column in (
            (models.ComputeNode, models.ComputeNode.hypervisor_hostname),
            (models.Instance, models.Instance.node),
        ):
            session.execute(sa.update(table).where(column == node).values(host=A))


if __name__ == "__main__":
    main(int(sys.argv[2]))
