# SPDX-License-Identifier: Apache-2.0

"""Puts nodes into the states of triples: in the fake Ironic, in Nova's databases, in Placement.

What Nova and Placement know of a server is copied, row by row, from a server that Nova itself
has built, so that a row lacks nothing that Nova writes.  Rows are written at once for all nodes.
"""

import dataclasses
import datetime
import random
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from nova import context as nova_context
from nova.db.api import api as api_db
from nova.db.api import models as api_models
from nova.db.main import api as main_db
from nova.db.main import models
from placement import db_api as placement_db
from placement.db.sqlalchemy import models as placement_models

from ironic_virt.testing.fake_ironic import FakeIronic, operations, provisioning, states
from ironic_virt.testing.fake_ironic.records import Allocation
from tests.any_state import triples
from tests.any_state.triples import DELETED, FOREIGN, NONE, OTHER, OURS, Triple

SOON, FAR = 20.0, 1_000_000.0
"""Seconds of Ironic's clock until a state is left by itself, early and late."""
SHARD = "a"
CLASS = "baremetal-gold"
LONG_AGO = datetime.datetime(2025, 1, 1)  # noqa: DTZ001 - as Nova's databases have it
_FIRST = 1000
"""The id of the first row that is made here."""
_OPERATIONS = {
    states.VERIFYING: "verify",
    states.DEPLOYING: "deploy",
    states.DEPLOYWAIT: "deploy",
    states.DELETING: "undeploy",
    states.CLEANING: "clean",
    states.CLEANWAIT: "clean",
    states.INSPECTING: "inspect",
    states.INSPECTWAIT: "inspect",
    states.ADOPTING: "adopt",
    states.RESCUING: "rescue",
    states.RESCUEWAIT: "rescue",
    states.UNRESCUING: "unrescue",
    states.SERVICING: "service",
}
_TABLES = {
    **dict.fromkeys(("instances", "instance_id_mappings"), "uuid"),
    **dict.fromkeys(
        (
            *("instance_extra", "instance_info_caches", "instance_system_metadata"),
            *("block_device_mapping", "instance_actions"),
        ),
        "instance_uuid",
    ),
}
"""A cell's tables about servers, each with the column that has the server's uuid."""
UNLOCKED = (states.DEPLOYWAIT, states.CLEANWAIT, states.INSPECTWAIT, states.RESCUEWAIT)


@dataclasses.dataclass(frozen=True, slots=True)
class Staged:
    """A triple and what stands for it.

    :ivar node: the node's uuid, which is its record's and its provider's, too.
    :ivar server: the uuid of the server, whether or not Nova has deleted it; there may be none.
    :ivar stranger: that of an instance and a consumer that Nova has never known.
    """

    triple: Triple
    node: str
    server: str
    stranger: str

    @property
    def instance(self) -> str | None:
        """The node's ``instance_uuid`` at the beginning."""
        kinds = {NONE: None, OURS: self.server, DELETED: self.server, FOREIGN: self.stranger}
        return kinds[self.triple.instance]


class Template:
    """The rows and the node of a server that Nova has built, and of its node.

    :param fake: Ironic.
    :param node: the node's uuid.
    :param server: the server's.
    :param other: a node whose record is another host's.
    """

    def __init__(self, fake: FakeIronic, node: str, server: str, other: str) -> None:
        self._fake = fake
        self._node, self._server, self._other = node, server, other
        self._ironic = fake.node(node)
        with writer(main_db) as session:
            tables = models.BASE.metadata.tables
            self._rows = {
                name: fetch(session, tables[name], **{column: server})
                for name, column in _TABLES.items()
            }
            records = {
                OURS: fetch(session, tables["compute_nodes"], uuid=node),
                OTHER: fetch(session, tables["compute_nodes"], uuid=other),
            }
        self._records = {host: rows[0] for host, rows in records.items()}
        with writer(api_db) as session:
            tables = api_models.BASE.metadata.tables
            self._api_rows = {
                name: fetch(session, tables[name], instance_uuid=server)
                for name in ("instance_mappings", "request_specs")
            }
        with placement() as session:
            provider = fetch(session, placement_models.ResourceProvider.__table__, uuid=node)[0]
            mine = {"resource_provider_id": provider["id"]}
            self._provider = provider
            self._stock = fetch(session, placement_models.Inventory.__table__, **mine)[0]
            self._allocation = fetch(session, placement_models.Allocation.__table__, **mine)[0]
            self._traits = fetch(session, placement_models.ResourceProviderTrait.__table__, **mine)
            self._consumer = fetch(session, placement_models.Consumer.__table__, uuid=server)[0]
            classes = fetch(session, placement_models.ResourceClass.__table__)
            self._wrong = next(one["id"] for one in classes if one["name"] == "CUSTOM_WRONG")

    def stage(self, drawn: Iterable[Triple], chance: random.Random) -> list[Staged]:
        """Have a node for each triple, and all that is said of it."""
        staged = [Staged(triple, *(_new_uuid(chance) for _ in range(3))) for triple in drawn]
        self._make_nodes(staged)
        with writer(main_db) as session:
            _insert(session, models.BASE.metadata.tables, self._of_nova(staged))
        with writer(api_db) as session:
            _insert(session, api_models.BASE.metadata.tables, self._of_nova_api(staged))
        with placement() as session:
            _insert(session, placement_models.BASE.metadata.tables, self._of_placement(staged))
        return staged

    # -- Ironic -----------------------------------------------------------------

    def _make_nodes(self, staged: list[Staged]) -> None:
        store = self._fake.bm.store
        for one in staged:
            self._fake.add_node(uuid=one.node, **self._fields(one))
            row = store.nodes.get(one.node)
            assert row is not None
            with self._fake.lock:
                if one.triple.allocation:
                    self._allocate(row, one.instance)
                if one.triple.moves != triples.NEVER:
                    self._set_going(row, one.triple)

    def _fields(self, staged: Staged) -> dict[str, Any]:
        triple = staged.triple
        fields: dict[str, Any] = {
            "shard": SHARD,
            "resource_class": CLASS,
            "provision_state": triple.provision,
            "target_provision_state": states.TARGETS.get(triple.provision),
            "provision_updated_at": "2025-01-01T00:00:00+00:00",
            "maintenance": triple.maintenance,
            "maintenance_reason": "under repair" if triple.maintenance else None,
            "retired": triple.retired,
            "instance_uuid": staged.instance,
            "power_state": triple.power,
            "last_error": "it failed before" if triple.error else None,
        }
        if triple.target == triples.UNUSUAL:
            fields["target_provision_state"] = states.MANAGEABLE
        if triple.marked:
            fields |= self._marks(triple, staged.server)
        return fields

    def _marks(self, triple: Triple, server: str) -> dict[str, Any]:
        """What this driver has written to the node of its server, by how far that has come."""
        info = {
            key.replace(self._server, server): value
            for key, value in self._ironic["instance_info"].items()
        }
        keys = [key for key in info if server in key]
        if triple.provision not in (states.ACTIVE, states.RESCUE):
            has_begun = triple.provision not in (
                states.AVAILABLE,
                states.MANAGEABLE,
                states.ENROLL,
            )
            return {"instance_info": info if has_begun else {key: info[key] for key in keys}}
        reason = self._ironic["protected_reason"] or ""
        return {
            "instance_info": info,
            "protected": self._ironic["protected"],
            "protected_reason": reason.replace(self._server, server),
        }

    def _allocate(self, row: Any, instance: str | None) -> None:
        assert instance is not None
        store = self._fake.bm.store
        allocation = Allocation(
            id=store.allocations.next_id(),
            uuid=instance,
            created_at=store.timestamp(),
            state="active",
            node=row,
            resource_class=CLASS,
        )
        store.allocations.add(allocation)
        store.update(row, allocation_id=allocation.id)

    def _set_going(self, row: Any, triple: Triple) -> None:
        """Have Ironic at work on a node, as its state says."""
        bm = self._fake.bm
        if triple.provision in triples.HELD:
            bm.timeline.after(FAR, lambda: self._end_hold(row))
            return
        operation = _OPERATIONS[triple.provision]
        target = row.target_provision_state
        if triple.fails:
            self._fake.fail_next(operation, "it failed by itself", node=row.uuid)

        def finish() -> None:
            if operation == "undeploy":
                operations.wipe_instance(bm, row)
                operations.process_event(bm, row, "clean")
                operations.run(bm, row, "clean", lambda: cleaned(), delay=SOON)
            elif operation == "clean":
                cleaned()
            else:
                operations.process_event(bm, row, "done")

        def cleaned() -> None:
            stays = row.retired or target == states.MANAGEABLE
            operations.process_event(bm, row, "manage" if stays else "done")

        delay = SOON if triple.moves == triples.EARLY else FAR
        operations.run(bm, row, operation, finish, delay=delay)
        if triple.provision in UNLOCKED:
            bm.unlock(row)

    def _end_hold(self, row: Any) -> None:
        if row.provision_state in triples.HELD:
            provisioning.abort(self._fake.bm, row)

    # -- Nova -------------------------------------------------------------------

    def _of_nova(self, staged: list[Staged]) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, one in enumerate(staged, start=_FIRST):
            triple = one.triple
            if triple.record != NONE:
                record = self._records[triple.record]
                names = {"uuid": one.node, "hypervisor_hostname": one.node}
                yield "compute_nodes", {**record, **names, "id": number}
            if not triple.vm:
                continue
            is_deleted = triple.vm == DELETED
            host = self._records[OTHER if triple.record == OTHER else OURS]["host"]
            gone: dict[str, Any] = {"deleted": 0, "deleted_at": None}
            for name, rows in self._rows.items():
                for position, row in enumerate(rows):
                    own = number * 100 + position
                    if is_deleted:
                        gone = {"deleted": own, "deleted_at": LONG_AGO}
                    new = {**row, "id": own, **gone, _TABLES[name]: one.server}
                    if name == "instances":
                        new |= {
                            "hostname": f"server-{number}",
                            "host": None if triple.is_homeless else host,
                            "node": None if triple.is_homeless else one.node,
                            "compute_id": None if triple.is_homeless else number,
                            "vm_state": triple.vm,
                            "task_state": triple.task,
                        }
                    elif name == "block_device_mapping":
                        new["uuid"] = str(uuid.uuid5(uuid.UUID(one.server), str(own)))
                    yield name, new

    def _of_nova_api(self, staged: list[Staged]) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, one in enumerate(staged, start=_FIRST):
            for name, rows in self._api_rows.items() if one.triple.vm else ():
                is_deleted = one.triple.vm == DELETED
                if is_deleted and name == "request_specs":
                    continue
                for row in rows:
                    new = {**row, "id": number, "instance_uuid": one.server}
                    if name == "request_specs":
                        new["spec"] = row["spec"].replace(self._server, one.server)
                    else:
                        new["queued_for_delete"] = is_deleted
                    yield name, new

    # -- Placement --------------------------------------------------------------

    def _of_placement(self, staged: list[Staged]) -> Iterator[tuple[str, dict[str, Any]]]:
        for number, one in enumerate(staged, start=_FIRST):
            triple = one.triple
            if triple.provider == NONE:
                continue
            names = {"uuid": one.node, "name": one.node, "id": number, "root_provider_id": number}
            yield "resource_providers", {**self._provider, **names}
            mine = {"resource_provider_id": number}
            for trait in self._traits:
                yield "resource_provider_traits", {**trait, **mine}
            if triple.provider == "empty":
                continue
            kind = self._wrong if triple.provider == triples.WRONG else None
            of_class = {"resource_class_id": kind or self._stock["resource_class_id"]}
            reserved = int(triple.provider == triples.FULL)
            yield (
                "inventories",
                {**self._stock, **mine, **of_class, "id": number, "reserved": reserved},
            )
            if triple.held == NONE:
                continue
            consumer = one.server if triple.held == OURS else one.stranger
            yield "consumers", {**self._consumer, "id": number, "uuid": consumer}
            held = {**self._allocation, **mine, **of_class, "id": number, "consumer_id": consumer}
            yield "allocations", held


def _new_uuid(chance: random.Random) -> str:
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def writer(database: Any) -> Any:
    admin = nova_context.get_admin_context()
    manager = (
        database.get_context_manager(admin) if database is main_db else database.context_manager
    )
    return manager.writer.using(admin)


def placement() -> Any:
    from placement import context as placement_context

    return placement_db.placement_context_manager.writer.using(placement_context.RequestContext())


def fetch(session: Any, table: Any, **where: Any) -> list[dict[str, Any]]:
    """The rows of a table that have these values."""
    conditions = [table.c[name] == value for name, value in where.items()]
    found = session.execute(sa.select(table).where(*conditions)).mappings()
    return [dict(row) for row in found]


def _insert(session: Any, tables: Any, rows: Iterator[tuple[str, dict[str, Any]]]) -> None:
    by_table: dict[str, list[dict[str, Any]]] = {}
    for name, row in rows:
        by_table.setdefault(name, []).append(row)
    for name, many in by_table.items():
        session.execute(sa.insert(tables[name]), many)
