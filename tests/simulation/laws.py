# SPDX-License-Identifier: Apache-2.0

"""What must never happen under any faults: checked at each request and each change.

The numbers are those of the invariants in the contributor's guide (architecture).
"""

from __future__ import annotations

import json as encoding
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import greenlet

from ironic_virt.baremetal import states
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic.records import Node
from tests.simulation.records import Offer
from tests.simulation.scheduler import Task

if TYPE_CHECKING:
    from tests.simulation.world import World

_LEAVING = (TaskState.DELETING, TaskState.SPAWNING)
_ASKED_FOR = {
    "deleted": _LEAVING,
    "active": _LEAVING,
    "rebuild": (TaskState.REBUILDING, TaskState.DELETING),
    "rescue": (TaskState.RESCUING, TaskState.DELETING),
    "unrescue": (TaskState.UNRESCUING, TaskState.RESCUING, TaskState.DELETING),
    # Of a rescue: the server is on its way out, or the rescue system has not come up in time.
    "abort": (TaskState.RESCUING, TaskState.DELETING),
}
"""Which tasks an instance may have when its node gets this request."""

_PROTECTION = {"op": "add", "path": "/protected", "value": True}
MOST_FINDINGS = 5

SEEN_LATE = 900.0
"""Seconds after which a host has listed a node that was moved, under any faults."""


class Laws:
    """Watches a world.

    :ivar findings: what was broken, in sentences.
    :ivar torn_down_late: the instances that were lost because Ironic did not protect their nodes.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.findings: list[str] = []
        # Node to the last time at which it was free.
        self._free_until: dict[str, float] = {}
        self._reported: dict[str, frozenset[str]] = {}
        self._rebuilds: set[tuple[str, str]] = set()
        self._late = False
        # The instance that the node had before the request, and its state.
        self._had: str | None = None
        self._was: str | None = None
        self._taken_off: set[str] = set()
        # What has no fence in Ironic: node to instance, or VIFs.
        self._claimed_late: dict[str, str | None] = {}
        # The host that asked for it.
        self._allocated_late: dict[str, str] = {}
        self._rescued_late: dict[str, str | None] = {}
        self._undeployed_late: set[str] = set()
        # The nodes whose instance went with an allocation that was deleted late.
        self._emptied_late: set[str] = set()
        # Node to the instance for which its protection was asked, and did not come about.
        self._unprotected: dict[str, str | None] = {}
        self.torn_down_late: set[str] = set()
        self._late_vifs: set[str] = set()
        # Nodes with volumes that were attached late.
        self.late_targets: set[str] = set()
        # Of each node the image, and the image and the server that its config drive is for.
        self._deployed: dict[str, tuple[str | None, ...]] = {}

    def found(self, law: str, what: str) -> None:
        """Take note of a broken law."""
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(f"{law}: {what}")
            self._world.log(f"FOUND {law}: {what}")

    # -- requests -------------------------------------------------------------

    def sent(self, host: str, method: str, path: str, json: Any) -> None:
        """A mutating request follows a look that allows it (2, 7)."""
        node = self.node_of(path, json)
        if method == "GET" or not node:
            return
        task = greenlet.getcurrent()
        assert isinstance(task, Task)
        self._world.standbys.check_turn(host, f"sends {method} {path}")
        seen = task.seen.get(node)
        if seen is None:
            self.found("2 guard", f"{host} {method} {path} without a look at the node")
            return
        carried = seen.get("instance_uuid")
        if method == "PATCH" and _PROTECTION in json:
            self._unprotected[node] = carried
        if reason := self._world.why_outside(host, seen.get("shard"), seen.get("conductor_group")):
            # Of the ring, a node stays with the host of its instance.
            stays = self._world.is_ring and self._world.host_of(carried) == host
            if not stays:
                self.found("2 guard", f"{host} {method} {path} though {reason}")
        if "/states/" in path and task.about is not None and carried != task.about:
            self.found("7 foreign", f"{host} {method} {path} for {task.about}, it has {carried}")

    def node_of(self, path: str, json: Any) -> str:
        """The uuid of the node that a request is about; empty: none."""
        parts = path.split("/")
        if path.startswith("/volume/targets/"):
            target = self._world.fake.bm.store.targets.get(parts[3])
            return target.node.uuid if target is not None else ""
        if path.startswith("/volume/"):
            return json["node_uuid"] if json else ""
        return parts[2] if path.startswith("/nodes/") else ""

    def shown(self, host: str, method: str, path: str, answer: Answer) -> None:
        """Remember what a task has been shown."""
        task = greenlet.getcurrent()
        if not isinstance(task, Task) or answer.status != 200 or not path.startswith("/nodes"):
            return
        parts = path.split("/")
        if len(parts) > 3 or (len(parts) == 2 and task.about is None):
            return
        try:
            shown = encoding.loads(answer.body)
        except ValueError:
            return
        for row in shown.get("nodes", [shown]):
            if isinstance(row.get("uuid"), str):
                task.seen[row["uuid"]] = row

    def carried(self, node: str) -> str | None:
        """The instance that a node has."""
        row = self._world.fake.bm.store.nodes.get(node)
        return row.instance_uuid if row is not None else None

    def arrives(self, host: str, method: str, path: str, json: Any, *, late: bool) -> None:
        """Check that a user wants what Ironic is asked for, late requests aside (1, 6, 7)."""
        self._late = late
        parts = path.split("/")
        node = self._world.fake.bm.store.nodes.get(parts[2]) if len(parts) > 2 else None
        self._had = node.instance_uuid if node is not None else None
        self._was = node.provision_state if node is not None else None
        if late and (method, path) == ("POST", "/allocations"):
            self._allocated_late[json["uuid"]] = host
        if late and method == "POST" and path == "/volume/targets":
            self.late_targets.add(json["node_uuid"])
        if method == "GET" or late:
            return
        self._world.standbys.check_turn(host, f"has sent {method} {path}")
        if (method, parts[1]) == ("DELETE", "volume"):
            self._world.volumes.is_taken(host, parts[3])
        if parts[1] == "allocations":
            if method == "DELETE":
                self._is_leaving(host, parts[2], f"{method} {path}")
            else:
                self._are_own(host, json)
            return
        if parts[1] != "nodes" or node is None:
            return
        carried = node.instance_uuid
        if path.endswith("/states/provision") and carried is not None:
            row = self._world.instances.rows.get(carried)
            wanted = _ASKED_FOR.get(json["target"], ())
            expected = row is not None and (row.task_state in wanted or row.is_deleted)
            if json["target"] == "deleted":
                expected = row is not None and self._may_go(row)
            if not expected:
                what = f"nobody wants it of {_of(carried, row)}"
                self.found("7 foreign", f"{host} {method} {path} {json['target']}: {what}")
        elif path.endswith("/states/power") and carried not in self._world.instances.rows:
            if carried is None and self._world.volumes.targets(node.uuid):
                # A target that was left is deleted only of a node that is off.
                return
            self.found("7 foreign", f"{host} {method} {path}: the node has {carried}")
        elif method == "PATCH" and carried is not None:
            paths = [one["path"] for one in json if one["op"] == "remove"]
            if "/instance_uuid" in paths:
                self._is_leaving(host, carried, f"{method} {path} removes it")

    def arrived(
        self, method: str, path: str, json: Any, status: int, late_for: str | None
    ) -> None:
        """What is obeyed though it was given up does no harm (16).

        :param late_for: the instance that it was meant for, of one that comes late.
        """
        late, self._late = self._late, False
        if method == "GET" or status >= 300 or not path.startswith("/nodes/"):
            return
        node = self._world.fake.bm.store.nodes.get(path.split("/")[2])
        if node is None:
            return
        if not late:
            if "/states/provision" in path:
                self._rescued_late.pop(node.uuid, None)
                self._undeployed_late.discard(node.uuid)
            return
        row = self._world.instances.rows.get(node.instance_uuid or "")
        if path.endswith("/vifs") and method == "POST":
            self._late_vifs.add(json["id"])
        elif path.endswith("/states/power") and row is not None:
            power = "off" if "off" in json["target"] else "on"
            self._world.users.may_become(row, "hand", power)
        elif path.endswith("/states/provision"):
            self._obeyed_late(node, json["target"], row)
        elif method == "PATCH" and self._had not in (None, late_for):
            row = self._world.instances.rows.get(self._had)
            what = f"{_of(self._had, row)} on {node.uuid}"
            self.found("16 late", f"a change for {late_for} was made to {what}")

    def _obeyed_late(self, node: Node, target: str, row: Instance | None) -> None:
        """A node does what was asked of it for a server that it may not have any more."""
        if target in ("rescue", "unrescue"):
            self._rescued_late[node.uuid] = node.instance_uuid
            if row is not None:
                self._world.users.may_become(row, target)
            return
        if target == "deleted":
            self._undeployed_late.add(node.uuid)
            rebuilds = row is not None and row.task_state == TaskState.REBUILDING
            if row is not None and (rebuilds or self._was == states.DEPLOY_FAILED):
                # Ironic rebuilds no protected node, and protects none whose rebuild has failed.
                self.torn_down_late.add(row.uuid)
        told = row is not None and row.task_state is None and row.vm_state != "error"
        if told and row is not None and not self._may_go(row):
            if self._unprotected.get(node.uuid) != row.uuid:
                self.found("16 late", f"{target} of {node.uuid}, which has {_of(row.uuid, row)}")
            elif target == "deleted":
                # Its host has warned of that.
                self.torn_down_late.add(row.uuid)

    def was_rescued_late(self, node: Node) -> bool:
        """Whether a node's server was put into rescue, or out of it, long after that was asked."""
        return self._rescued_late.get(node.uuid, "") == node.instance_uuid

    def was_claimed_late(self, node: Node) -> bool:
        """Whether a node has an instance that is gone, by a claim that was given up before."""
        row = self._world.instances.rows.get(node.instance_uuid or "")
        is_gone = row is not None and row.is_deleted
        return is_gone and self._claimed_late.get(node.uuid) == node.instance_uuid

    def _are_own(self, host: str, json: Any) -> None:
        """Ironic may pick only nodes of the host (2), and for known instances (10)."""
        if json["uuid"] not in self._world.instances.rows:
            self.found("10 reservation", f"{host} reserves for {json['uuid']}, which is nobody")
        for uuid in json["candidate_nodes"]:
            node = self._world.fake.bm.store.nodes.get(uuid)
            if node and self._world.why_outside(host, node.shard, node.conductor_group):
                since = self._world.moved_at.get(uuid, -math.inf)
                if self._world.scheduler.now - since > SEEN_LATE:
                    self.found("2 guard", f"{host} has Ironic choose {uuid}, which is not its own")

    def _is_leaving(self, host: str, instance: str, what: str) -> None:
        row = self._world.instances.rows.get(instance)
        if row is None or not self._may_go(row):
            self.found("7 foreign", f"{host} {what}: nobody wants that of {_of(instance, row)}")

    def _may_go(self, row: Instance) -> bool:
        """Whether its user does not expect it to be there."""
        gone = self._world.users.given_up | self.torn_down_late
        return row.task_state in _LEAVING or row.uuid in gone

    # -- changes in Ironic ----------------------------------------------------

    def changed(self, node: Node, before: str | None) -> None:
        """A node has changed in Ironic (1, 3).

        :param before: the instance that it had.
        """
        if node.protected:
            self._unprotected.pop(node.uuid, None)
        self._free_until[node.uuid] = math.inf if is_free(node) else self._last_free(node.uuid)
        after = node.instance_uuid
        if after is not None:
            self._emptied_late.discard(node.uuid)
        elif before is not None and self._late:
            self._emptied_late.add(node.uuid)
            self._taken_off.add(before)
            # A release that was given up, after which the build has gone on.
            self._late_vifs.update(self._world.fake.vifs(node.uuid))
        if after is not None and after != before and (self._late or self._is_outside(node)):
            self._claimed_late[node.uuid] = after
        if after is not None and after != before:
            carriers = [
                one for one in self._world.fake.bm.store.nodes if one.instance_uuid == after
            ]
            if len(carriers) > 1:
                self.found("1 one node", f"{after} is on {len(carriers)} nodes")
        if before is None or before == after:
            return
        if self._world.by_hand:
            self._taken_off.add(before)
            return
        row = self._world.instances.rows.get(before)
        is_safe = row is not None and row.task_state != TaskState.REBUILDING
        if node.uuid in self._undeployed_late:
            # By whoever asked for it before: an error may say so.
            self._taken_off.add(before)
            if not is_safe:
                # Nodes of strangers and nodes being rebuilt are not protected.
                return
        if row is None or not self._may_go(row):
            self.found("1 lost", f"node {node.uuid} has lost {_of(before, row)}")

    def _is_outside(self, node: Node) -> bool:
        """Whether Ironic chose a node late, for a host that it is not of any more."""
        host = self._allocated_late.get(node.instance_uuid or "")
        return host is not None and bool(
            self._world.why_outside(host, node.shard, node.conductor_group)
        )

    def deploys(self, node: Node, before: str) -> None:
        """A deployment begins (4).

        :param before: the provision state that the node was in.
        """
        row = self._world.instances.rows.get(node.instance_uuid or "")
        self._world.hooks.deploys(node, is_judged=not self._late and row is not None)
        if row is None:
            # A request to deploy names nobody; what is deployed so may not stay.
            is_late = node.uuid in self._emptied_late or (self._late and node.instance_uuid)
            if not self._world.by_hand and not is_late:
                self.found("1 foreign", f"{node.uuid} is deployed for {node.instance_uuid}")
        elif self._late:
            # It is judged by what it leads to.
            return
        elif row.task_state not in (*_LEAVING, TaskState.REBUILDING) and not row.is_deleted:
            self.found("4 twice", f"{node.uuid} is deployed again, with {_of(row.uuid, row)}")
        elif row.task_state == TaskState.REBUILDING and before == states.ACTIVE:
            request = (row.uuid, self._world.requests[row.uuid])
            if request in self._rebuilds:
                self.found("4 twice", f"{node.uuid} is rebuilt again for one request")
            self._rebuilds.add(request)

    def deployed(self, node: Node) -> None:
        """A deployment has ended (16)."""
        drive = node.instance_info.get("configdrive")
        said = drive["meta_data"] if isinstance(drive, dict) else {}
        system = self._world.volumes.system_of(node)
        self._deployed[node.uuid] = (system, said.get("image"), said.get("uuid"))
        self._world.volumes.deployed(node)
        self._world.hooks.deployed(node, said)
        row = self._world.instances.rows.get(node.instance_uuid or "")
        if row is not None and row.task_state is None:
            self.runs(node, row)

    def runs(self, node: Node, row: Instance) -> None:
        """What runs on a node is what the instance asked for that is said to be there (16)."""
        if row.vm_state == "error":
            return
        deployed = self._deployed.get(node.uuid)
        system = self._world.volumes.boots(row.uuid) or (row.image and row.image.id)
        images = (system, self._world.users.images[row.uuid])
        if deployed not in [(image, image, row.uuid) for image in images]:
            what = f"has an image, and a config drive for an image and a server: {deployed}"
            self.found("16 runs", f"{node.uuid} of {_of(row.uuid, row)} {what}")

    def _last_free(self, node: str) -> float:
        free_until = self._free_until.get(node, -math.inf)
        return self._world.scheduler.now if free_until == math.inf else free_until

    # -- what a host says -----------------------------------------------------

    def reported(
        self,
        host: str,
        names: Collection[str],
        offers: Mapping[str, Offer],
        began: float,
        failed: str | None,
    ) -> None:
        """What a host reports is so (3, 5, 8)."""
        if not self._world.is_ring:
            for name in names:
                owner = self._world.owners.get(name, host)
                if owner != host and self._world.owned_since.get(name, began) < began:
                    self.found("11 owner", f"{host} reports {name}, which {owner} has")
        if failed is None:
            for name, offer in offers.items():
                if offer.free and self._free_until.get(name, -math.inf) < began - 1:
                    self.found("8 available", f"{host} offers {name}, which is not free")
        for node in self._world.fake.bm.store.nodes:
            if node.uuid in names or self._world.owners.get(node.uuid) != host:
                continue
            since = max(
                at.get(node.uuid, -math.inf)
                for at in (self._world.moved_at, self._world.owned_since)
            )
            if since > began or self._world.why_outside(host, node.shard, node.conductor_group):
                continue
            known = failed is None or node.uuid in self._reported.get(host, ())
            if known and not self._world.is_ring:
                self.found("3 vanished", f"{host} does not report {node.uuid} any more")
        self._reported[host] = frozenset(names)

    def given_up(self, row: Instance) -> None:
        """An instance that is said to be gone is (3)."""
        if self._world.fake.bm.store.node_by_instance(row.uuid) is not None:
            self.found("3 vanished", f"{_of(row.uuid, row)} is said to be gone")

    def blames(self, row: Instance, why: str) -> None:
        """What an error says of others is so (4)."""
        if "the lease" in why:
            self.found("14 lease", f"{_of(row.uuid, row)} fails because of it: {why}")
        if "somebody took the server off" in why and row.uuid not in self._taken_off:
            self.found("4 told", f"of {_of(row.uuid, row)}, which nobody took off its node: {why}")

    def said_to_be_gone(self, host: str, name: str) -> None:
        """A node that is said to be gone is (3)."""
        if self._world.fake.bm.store.nodes.get(name) is not None:
            self.found("3 vanished", f"{host} says that {name} is deleted")

    # -- at the end -----------------------------------------------------------

    def settled(self) -> None:
        """Each server is where its record says, and in that state (1, 3, 4)."""
        store = self._world.fake.bm.store
        for row in self._world.instances.live():
            if row.task_state is not None:
                self.found("13 liveness", f"{_of(row.uuid, row)} is still wanted")
                continue
            if row.vm_state == "error":
                # What several hosts count in common may be gone when it is asked for.
                if self._world.is_calm and not self._world.layout.pools:
                    fault = self._world.instances.faults.get(row.uuid)
                    self.found("4 converges", f"{_of(row.uuid, row)} without a fault: {fault}")
                continue
            node = store.node_by_instance(row.uuid)
            wanted = states.RESCUE if row.vm_state == "rescued" else states.ACTIVE
            if node is None:
                if row.uuid not in self.torn_down_late:
                    self.found("1 lost", f"no node has {_of(row.uuid, row)}")
                continue
            self.runs(node, row)
            if self.was_rescued_late(node) and node.uuid == row.node:
                continue
            if node.provision_state != wanted or node.uuid != row.node:
                where = f"{node.uuid} {node.provision_state}"
                self.found(
                    "4 converges", f"{_of(row.uuid, row)}, its record says {row.node}: {where}"
                )

    def nothing_is_left(self, pristine: Mapping[str, Any]) -> None:
        """All servers are deleted: nothing of them is left (4, 6, 7, 12)."""
        for row in self._world.instances.live():
            fault = self._world.instances.faults.get(row.uuid)
            self.found("13 liveness", f"{_of(row.uuid, row)} can't be deleted: {fault}")
        for uuid, before in pristine.items():
            after = self._world.trace(uuid)
            after["vifs"] = [vif for vif in after["vifs"] if vif not in self._late_vifs]
            if set(after["instance_info"]) == {"traits"}:
                # Ironic writes them with a reservation; the driver logs that they stay.
                after["instance_info"] = {}
            if after != before:
                left = {key: value for key, value in after.items() if value != before[key]}
                self.found("4 leaked", f"node {uuid} has kept {left}")
        if left := self._world.fake.allocations():
            self.found("4 leaked", f"allocations of {[one['uuid'] for one in left]}")

    def all_offered(self, pools: bool) -> None:
        """Each free node is offered again, by one host (3)."""
        free = sum(offer.free for offer in self._world.offers.values())
        count = len(self._world.fake.bm.store.nodes)
        if (pools and not free) or (not pools and free != count):
            self.found("3 vanished", f"{free} of {count} free nodes are offered in the end")


def is_free(node: Node) -> bool:
    """Whether a node could be given an instance."""
    return (
        node.instance_uuid is None
        and node.provision_state == states.AVAILABLE
        and not node.maintenance
        and not node.retired
    )


def _of(uuid: str, row: Instance | None) -> str:
    if row is None:
        return f"somebody else's {uuid}"
    return f"{row.name} {uuid} ({row.vm_state}, {row.task_state}, host {row.host})"
