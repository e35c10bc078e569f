# SPDX-License-Identifier: Apache-2.0

"""A deployment with a server in a state; it is asked one verb after the other.

A *trace* is what a refused or failed verb leaves: on the server, the node and its ports, in
Placement, Cinder, Glance or Neutron.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar, NamedTuple

import sqlalchemy as sa
from nova.db.main import api as main_db
from nova.db.main import models
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional.api import client as api_client

from benchmarks.verbs.requests import DATA, MORE, OTHER_FLAVOR, ROOT, VERBS, Verb
from ironic_virt.testing.fake_ironic import Durations, states
from tests.any_state import judging, staging
from tests.any_state.world import HOST, OTHER_HOST, World

_POOLS, IN_POOL = "pools", "in a pool"
_SECONDS, _LOOKS, _WORDS = 60.0, 3, 500
_VOLATILE = {"updated_at", "reservation", "driver_internal_info", "provision_updated_at"}
_OF_SERVER = ("vm_state", "task_state", "power_state", "host", "node", "image_ref", "locked")
DONE, FAILED, WAITING = "done", "fails", "waits"
"""Of what was accepted: it succeeded, failed, or waits for what is under way already."""


class Answer(NamedTuple):
    """What has become of a request.

    :ivar outcome: :data:`DONE`, the status of a refusal, :data:`FAILED`, ...
    :ivar trace: what is not as it was before.
    :ivar reason: why it was refused or has failed.
    """

    outcome: str
    trace: tuple[str, ...]
    reason: str = ""

    @property
    def shown(self) -> str:
        """What the table says."""
        if self.outcome.isdigit() or self.outcome == FAILED:
            return f"{self.outcome}†" if self.trace else self.outcome
        return self.outcome

    @property
    def is_unclean(self) -> bool:
        """Whether it was refused or has failed, and left a trace."""
        return self.shown.endswith("†")


class Sweep(World):
    """Services of two shards, and one that offers pools."""

    settings: ClassVar[dict[str, Any]] = {"durations": Durations(deploy=1, undeploy=1)}
    patience = 3000

    def prepare(self, driver: str) -> None:
        """Start the services, with free nodes."""
        self._driver, self.is_frozen = driver, False
        self.fake.requests.listener = self._tick
        self.cinder = self.useFixture(nova_fixtures.CinderFixture(self))
        for volume in (ROOT, DATA, MORE):
            data = {"target_iqn": f"iqn.2026-01.test:{volume}", "target_lun": 1}
            self.cinder.VOLUME_CONNECTION_INFO[volume] = {
                "driver_volume_type": "iscsi",
                "data": data,
            }
        # Nova's stand-in for Neutron has no names of security groups.
        group = self.neutron.security_group["id"]
        find = "neutronclient.neutron.v2_0.find_resourceid_by_name_or_id"
        self.stub_out(find, lambda *_: group)
        sizes = {"ram": 16384, "vcpus": 8, "disk": 100}
        self.api.post_flavor({"flavor": {"name": OTHER_FLAVOR, "id": OTHER_FLAVOR, **sizes}})
        specs = self.api.get_extra_specs(self.flavor_id)
        self.api.post_extra_spec(OTHER_FLAVOR, {"extra_specs": specs})
        self.nodes = [self._make_node(staging.SHARD) for _ in range(3)]
        self._make_node("b")
        # In this process CONF.host is that of the last one, and Nova reads it for volumes.
        self.computes = [self._started(OTHER_HOST, "b"), self._started(HOST, staging.SHARD)]

    def _make_node(self, shard: str) -> str:
        properties = {"cpu_arch": "x86_64", "capabilities": "iscsi_boot:True"}
        (node,) = self.make_nodes(
            1,
            shard=shard,
            properties=properties,
            storage_interface="cinder",
            driver_info={"takes_nmi": True},
        )
        body = {"node_uuid": node, "type": "iqn", "connector_id": f"iqn.2026-01.node:{node}"}
        self.ironic("POST", "/volume/connectors", body)
        return node

    def _tick(self, entry: Any) -> None:
        if not self.is_frozen:
            self.clock.advance(0.5)

    # -- states -----------------------------------------------------------------

    def running(self) -> dict[str, Any]:
        node = self._free_node()
        server = self.boot_at(HOST, node)
        # Ironic would learn it from Glance, and rebuilds nothing without it.
        self.say_image_type(node)
        return server

    def stopped(self) -> dict[str, Any]:
        return self._after(self.running(), "SHUTOFF", **{"os-stop": None})

    def rescued(self) -> dict[str, Any]:
        return self._after(self.running(), "RESCUE", rescue={})

    def in_error(self) -> dict[str, Any]:
        server = self.running()
        self.act(server, **{"os-resetState": {"state": "error"}})
        return server

    def building(self) -> dict[str, Any]:
        node = self._free_node()
        self.is_frozen = True
        server = self.boot(availability_zone=f"nova:{HOST}:{node}")
        self._hold(node, states.DEPLOYING, states.DEPLOYWAIT)
        return server

    def deleting(self) -> dict[str, Any]:
        server = self.running()
        node = self.node_of(server)
        self.is_frozen = True
        self.api.delete_server(server["id"])
        self._hold(node, states.DELETING, states.DELETING)
        return server

    def locked(self) -> dict[str, Any]:
        """Return one that is locked, for its owner, who isn't an administrator."""
        server = self.running()
        self.act(server, lock={})
        return server

    def of_volume(self) -> dict[str, Any]:
        disk = {"source_type": "volume", "destination_type": "volume"}
        mapping = [
            {**disk, "uuid": volume, "boot_index": index}
            for volume, index in ((ROOT, 0), (DATA, -1))
        ]
        where = f"nova:{HOST}:{self._free_node()}"
        server = self.boot(imageRef="", block_device_mapping_v2=mapping, availability_zone=where)
        return self.wait_for(server, "ACTIVE")

    def in_pool(self) -> dict[str, Any]:
        if _POOLS not in self._hosts:
            self._make_node("c")
            self.computes.append(self._started(_POOLS, "c", node_selection="ironic"))
        self.refresh(*self.computes)
        return self.wait_for(self.boot(availability_zone=f"nova:{_POOLS}"), "ACTIVE")

    def of_lost_host(self) -> dict[str, Any]:
        """Return one whose service is said to be down; another shard has a free node."""
        server = self.running()
        self.force_down(HOST)
        return server

    def _after(self, server: dict[str, Any], status: str, **action: Any) -> dict[str, Any]:
        self.act(server, **action)
        return self.wait_for(server, status)

    def _free_node(self) -> str:
        self.refresh(*self.computes)
        offered = judging.View.now(self.fake).offered
        return next(node for node in self.nodes if node in offered)

    def _hold(self, node: str, begun: str, state: str) -> None:
        """Have Ironic never end what it has begun to do to a node."""
        self.until(lambda: self.fake.node(node)["provision_state"], lambda seen: seen == begun)
        self.fake.set_node(node, provision_state=state)
        self.is_frozen = False

    # -- verbs ------------------------------------------------------------------

    def ask_all(
        self, make: Callable[[], dict[str, Any]], verbs: Collection[str], *, is_owner: bool
    ) -> Iterator[tuple[str, Answer]]:
        """Ask verbs of servers in a state; a server that has changed is replaced.

        :param is_owner: its owner asks, and no administrator.
        """
        server = None
        for name in verbs:
            if server is None:
                server = make()
                # So that nothing else changes while a verb is looked at.
                self.refresh(*self.computes)
            answer = self.ask(server, VERBS[name], is_owner)
            yield name, answer
            if any(part in change for change in answer.trace for part in ("server.", "node.")):
                self.remove(server)
                server = None
        if server is not None:
            self.remove(server)

    def ask(self, server: dict[str, Any], verb: Verb, is_owner: bool) -> Answer:
        """Ask a verb of a server, and return when nothing of it is under way."""
        api = self.api_fixture.api if is_owner else self.admin_api
        api.microversion = verb.version
        before, actions = self._snapshot(server), set(self._events(server))
        task = before["server"].get("task_state")
        path, name = f"/servers/{server['id']}{verb.path}", verb.method.lower()
        arguments = () if verb.body is None else (verb.body,)
        outcome, reason = DONE, ""
        try:
            getattr(api, f"api_{name}")(path, *arguments)
        except api_client.OpenStackApiException as exc:
            outcome, reason = str(exc.response.status_code), exc.response.text
        self.admin_api.microversion = self.microversion
        if outcome == DONE and not verb.is_short:
            outcome = self._end(server, actions, task)
            reason = self.told_by_the_events(server)[:_WORDS] if outcome == FAILED else ""
        changes = tuple(_changes(before, self._snapshot(server)))
        if outcome == DONE and verb.makes and verb.makes not in changes:
            outcome = FAILED
        return Answer(outcome, changes, reason)

    def _end(self, server: dict[str, Any], actions: Collection[str], task: str | None) -> str:
        """Wait until all that was begun has ended, and say how."""
        deadline, looks = time.monotonic() + _SECONDS, 0
        while time.monotonic() < deadline:
            fresh = {key: rows for key, rows in self._events(server).items() if key not in actions}
            results = [result for rows in fresh.values() for result in rows]
            record = self._server(server)
            # An event that began on two hosts ends on one of them only; a server whose host is
            # down is deleted without one.
            is_over = bool(results) and (None not in results or "Error" in results)
            is_over = is_over or not record
            is_calm = not record or record["task_state"] in (None, task)
            looks = looks + 1 if is_over and is_calm else 0
            # What is only cast begins its next event a moment after the former one ended.
            if looks == _LOOKS:
                return FAILED if "Error" in results else DONE
            time.sleep(0.5)
        return WAITING

    def _events(self, server: dict[str, Any]) -> dict[str, list[str | None]]:
        """The results of the events of each action of a server."""
        action, event = models.InstanceAction, models.InstanceActionEvent
        statement = (
            sa.select(action.id, event.result, event.start_time)
            .outerjoin(event, event.action_id == action.id)
            .where(action.instance_uuid == server["id"])
        )
        results: dict[str, list[str | None]] = {}
        with staging.writer(main_db) as session:
            for number, result, began in session.execute(statement):
                results.setdefault(str(number), []).extend([result] if began else [])
        return results

    def _server(self, server: dict[str, Any]) -> dict[str, Any]:
        table = models.Instance.__table__
        with staging.writer(main_db) as session:
            rows = staging.fetch(session, table, uuid=server["id"], deleted=0)
        return {name: rows[0][name] for name in _OF_SERVER} if rows else {}

    def _snapshot(self, server: dict[str, Any]) -> dict[str, Any]:
        """All that a verb may leave a trace on."""
        stocks, holders = judging.read_placement()
        nodes = self.fake.nodes()
        with staging.writer(main_db) as session:
            # A migration that has failed is a record of that, as an action is.
            is_live = models.Migration.status.not_in(("error", "failed", "done"))
            is_there = models.BlockDeviceMapping.deleted == 0
            counts = {
                name: session.execute(sa.select(sa.func.count()).where(condition)).scalar()
                for name, condition in (("migrations", is_live), ("volumes", is_there))
            }
        listed = self.ironic("GET", "/volume/targets?detail=true")["targets"]
        own = next((node for node in nodes if node["instance_uuid"] == server["id"]), {})
        return {
            "server": self._server(server),
            "node": {key: own[key] for key in own.keys() - _VOLATILE},
            "Ironic": {
                "carriers": sorted((n["uuid"], n["instance_uuid"] or "") for n in nodes),
                "targets": sorted((row["node_uuid"], row["volume_id"]) for row in listed),
                "VIFs": sorted((n["uuid"], *self.fake.vifs(n["uuid"])) for n in nodes),
            },
            "Placement": {"stocks": dict(stocks), "allocations": dict(holders)},
            "Nova": counts,
            "Cinder": {k: len(v) for k, v in self.cinder.volume_to_attachment.items() if v},
            "Glance": {"images": sorted(self.glance.images)},
            "Neutron": {
                port["id"]: port for port in self.neutron.list_ports(is_admin=True)["ports"]
            },
        }

    def remove(self, server: dict[str, Any]) -> None:
        """Delete a server, also one with an operation in progress."""
        self.force_down(HOST, down=False)
        for node in self.fake.nodes():
            if node["instance_uuid"] != server["id"]:
                continue
            if node["provision_state"] == states.DELETING:
                self.fake.set_node(
                    node["uuid"], provision_state=states.AVAILABLE, instance_uuid=None
                )
            elif node["provision_state"] == states.DEPLOYWAIT:
                self.fake.set_node(node["uuid"], provision_state=states.ACTIVE)
        if self._server(server):
            with contextlib.suppress(api_client.OpenStackApiNotFoundException):
                self.act(server, **{"os-resetState": {"state": "error"}})
                self.api.delete_server(server["id"])
            self.until(lambda: self._server(server), lambda record: not record)
        self.until(self._tear_down, lambda nodes: not nodes)
        for target in self.ironic("GET", "/volume/targets")["targets"]:
            self.ironic("DELETE", f"/volume/targets/{target['uuid']}")

    def _tear_down(self) -> list[dict[str, Any]]:
        """Tear down what Nova's own driver has left behind; the nodes that are not free yet."""
        nodes = [row for row in self.fake.nodes() if row["provision_state"] != states.AVAILABLE]
        for node in nodes:
            if node["provision_state"] in (states.ACTIVE, states.RESCUE, states.DEPLOYFAIL):
                path = f"/nodes/{node['uuid']}"
                unprotect = [{"op": "add", "path": "/protected", "value": False}]
                self._asked("PATCH", path, unprotect)
                self._asked("PUT", f"{path}/states/provision", {"target": "deleted"})
            self.node(node["uuid"])
        return nodes


STATES: dict[str, Callable[[Sweep], dict[str, Any]]] = {
    "running": Sweep.running,
    "stopped": Sweep.stopped,
    "rescued": Sweep.rescued,
    "in ERROR": Sweep.in_error,
    "building": Sweep.building,
    "deleting": Sweep.deleting,
    "locked": Sweep.locked,
    "of a volume": Sweep.of_volume,
    IN_POOL: Sweep.in_pool,
    "of a lost host": Sweep.of_lost_host,
}


def _changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    for part, values in before.items():
        for key in sorted(values.keys() | after[part].keys()):
            old, new = values.get(key), after[part].get(key)
            if old != new:
                shown = f": {old} → {new}" if part == "server" else ""
                yield f"{part}.{key}{shown}"
