# SPDX-License-Identifier: Apache-2.0

"""A world over the real Ironic: its database is staged, and all else goes through its API.

What Ironic was at work on, nobody is: a conductor has died of it.  It is locked until that
conductor starts again, which here is late, and fails it.
"""

from __future__ import annotations

import functools
import gc
import json
import time
from typing import Any

import sqlalchemy as sa

from ironic_virt.testing.fake_ironic import states
from tests.any_state import staging, triples
from tests.any_state.staging import Staged
from tests.any_state.world import World
from tests.nova.deployment import Deployment
from tools import real_ironic

_CONDUCTOR = "conductor-1"
_FREE = {"name": None, "reservation": None, "protected": False, "protected_reason": None}


class RealNodes:
    """What a world wants of Ironic, as the fake one has it.

    :ivar locked: the states of nodes that the conductor was at work on.
    :ivar held: nodes in a state that the person who has ordered it ends.
    """

    def __init__(self, world: World, ironic: real_ironic.RealIronic) -> None:
        self._world = world
        self.locked: dict[str, str] = {}
        self.held: list[str] = []
        self.engine = sa.create_engine(ironic.database_url)
        metadata = sa.MetaData()
        metadata.reflect(self.engine, only=["nodes", "allocations"])
        self.tables = metadata.tables

    def nodes(self) -> list[dict[str, Any]]:
        """All nodes, as the API shows them."""
        found: list[dict[str, Any]] = []
        while True:
            marker = f"&marker={found[-1]['uuid']}" if found else ""
            page = self._world.ironic("GET", f"/nodes?detail=true&limit=500{marker}")["nodes"]
            found += page
            if len(page) < 500:
                return found

    def node(self, uuid: str) -> dict[str, Any]:
        """A node, with what the API hides."""
        return {
            **self._world.node(uuid),
            "instance_info": self._world.kept_by_ironic(uuid),
        }

    def allocation(self, node: str) -> dict[str, Any]:
        """The row of an allocation of a node, which is gone by now."""
        asked = {"resource_class": staging.CLASS, "candidate_nodes": [node]}
        made = self._world.ironic("POST", "/allocations", asked)
        own = {"uuid": made["uuid"]}
        with self.engine.begin() as connection:
            (row,) = staging.fetch(connection, self.tables["allocations"], **own)
        self._world.until(
            lambda: self._world.ironic("GET", f"/allocations/{made['uuid']}")["state"],
            lambda state: state == "active",
        )
        self._world.ironic("DELETE", f"/allocations/{made['uuid']}")
        return row

    def advance(self, seconds: float) -> None:
        """After long holds have been aborted, and the conductor fails what it left at its end."""
        if seconds < staging.FAR:
            return
        log = self._world.counted.log
        held, self.held, first = self.held, [], len(log)
        for uuid in held:
            if self._world.node(uuid)["provision_state"] in triples.HELD:
                self._world.ironic("PUT", f"/nodes/{uuid}/states/provision", {"target": "abort"})
        # It is a person who has sent these.
        del log[first:]
        nodes, locked = self.tables["nodes"], self.locked
        self.locked = {}
        for uuid, state in locked.items():
            failed = {
                "provision_state": states.TRANSITIONS[state]["fail"],
                "last_error": "The conductor has restarted",
                "reservation": None,
            }
            own = nodes.c.uuid == uuid, nodes.c.reservation == _CONDUCTOR
            # One at a time, since Ironic writes to these rows as well.
            with self.engine.begin() as connection:
                connection.execute(nodes.update().where(*own).values(failed))


class Template(staging.Template):
    """The rows of nodes are copies of that of a free one."""

    _fake: RealNodes

    def _make_nodes(self, staged: list[Staged]) -> None:
        tables = self._fake.tables
        nodes, allocations = tables["nodes"], tables["allocations"]
        allocation = self._fake.allocation(self._other)
        del allocation["id"]
        with self._fake.engine.begin() as connection:
            row = staging.fetch(connection, nodes, uuid=self._other)[0]
            del row["id"]
            connection.execute(nodes.insert(), [row | self._columns(one) for one in staged])
            ids = dict(connection.execute(sa.select(nodes.c.uuid, nodes.c.id)).tuples().all())
            for one in staged:
                if not one.triple.allocation:
                    continue
                own = nodes.c.id == ids[one.node]
                values = {"uuid": one.instance, "node_id": ids[one.node], "state": "active"}
                made = connection.execute(allocations.insert().values(allocation | values))
                (key,) = made.inserted_primary_key
                connection.execute(nodes.update().where(own).values(allocation_id=key))

    def _columns(self, one: Staged) -> dict[str, Any]:
        fields = {"uuid": one.node, "instance_info": {}, **_FREE, **self._fields(one)}
        ends = one.triple.moves != triples.NEVER
        if ends and one.triple.provision in triples.HELD:
            self._fake.held.append(one.node)
        elif ends and one.triple.provision not in staging.UNLOCKED:
            fields["reservation"] = _CONDUCTOR
            self._fake.locked[one.node] = one.triple.provision
        fields["instance_info"] = json.dumps(fields["instance_info"])
        return {**fields, "provision_updated_at": staging.LONG_AGO}


class RealWorld(World):
    """A deployment over the real Ironic."""

    patience = 15
    template = Template
    make_nodes = Deployment.make_nodes

    def setUp(self) -> None:
        # Before the fixtures, which hide the user's directories.
        self._real = self.enterContext(real_ironic.RealIronic(database=real_ironic.MARIADB))
        super().setUp()

    def provide_ironic(self) -> Any:
        self._ironic = self._real
        self.fake = self.clock = RealNodes(self, self._real)
        return self._real

    def begin(self) -> None:
        """Power the bystander on, as real hardware is after a deployment; Nova would stop it."""
        self.ironic("PUT", f"/nodes/{self.bystander.node}/states/power", {"target": "power on"})
        self.until(
            lambda: self.node(self.bystander.node)["power_state"],
            lambda power: power == states.POWER_ON,
        )
        self._first = len(self.counted.log)

    def sent(self) -> list[str]:
        """The requests to Ironic since the last time that were to change something."""
        log, self._first = self.counted.log[self._first :], len(self.counted.log)
        lines = [line.partition(" ")[2] for line in log if line.startswith("ironic ")]
        return [line for line in lines if not line.startswith("GET ")]


def judged(
    numbered: tuple[int, list[Any]], driver: str, real: bool
) -> tuple[list[Any], Any, float]:
    """How the nodes of one world have ended, and what it took."""
    number, drawn = numbered
    world = (RealWorld if real else World)("runTest")
    began = time.process_time()
    world.setUp()
    try:
        world.say = functools.partial(print, flush=True)
        world.stage(drawn, number, driver)
        # Nearly all objects live on, so looking for dead cycles is seldom worth its time.
        gc.freeze()
        gc.set_threshold(200_000, 50, 1000)
        outcomes = world.judge()
        steps = world.seconds | {"failed starts": world.failed_starts}
        return outcomes, steps, time.process_time() - began
    finally:
        gc.unfreeze()
        world.doCleanups()
