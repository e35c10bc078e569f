# SPDX-License-Identifier: Apache-2.0

"""Users, who request servers, and the answers that they get."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.states import TaskState
from ironic_virt.compute.verbs import BY_NAME, BY_TASK
from tests.simulation.history import Operation
from tests.simulation.records import IMAGES

if TYPE_CHECKING:
    from tests.simulation.world import World

_VERBS = (
    *("rebuild", "rebuild", "reboot", "hard_reboot", "stop", "start", "start", "rescue"),
    *("unrescue", "unrescue", "delete", "delete", "attach_interface", "detach_interface"),
)
_POWER = {"start": "on", "stop": "off"}


class Users:
    """All users of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"users {world.seed}")
        # Of each server: what it was asked for and when, the latest last.
        self._asked: dict[str, list[tuple[str, float, Any]]] = {}
        self._requests = 0
        self.images: dict[str, str] = {}
        """Of each server the image that was asked for last."""
        self.given_up: set[str] = set()
        """Servers whose deletion was requested, or whose build failed."""

    def begin(self, until: float) -> None:
        """Ask for this and that until then."""
        self._world.scheduler.spawn(lambda: self._act(until))

    def _act(self, until: float) -> None:
        pace = 8.0 if self._world.is_quick else self._rng.choice([20.0, 60.0, 150.0])
        while True:
            self._world.scheduler.sleep(self._rng.expovariate(1 / pace))
            if self._world.scheduler.now >= until:
                return
            live = self._world.instances.live()
            if not live or self._rng.random() < 0.35:
                self._create()
            else:
                self._ask(self._rng.choice(live), self._rng.choice(_VERBS))

    def _create(self) -> None:
        if chosen := self._world.choose():
            self.create(chosen)

    def create(self, chosen: str) -> None:
        """Ask for a server on a node, or in a pool."""
        uuid, image = self._world.new_uuid(), self._rng.choice(IMAGES)
        place = self._world.place(chosen)
        boots = self._world.volumes.give(uuid)
        source = None if boots else image
        self._world.instances.create(uuid, source, self._world.new_uuid(), **place)
        self._note(uuid, "create", boots or image.id)

    def _ask(self, row: Instance, name: str) -> None:
        verb = BY_NAME[name]
        if row.host is None and name != "delete":
            return
        arguments: dict[str, Any] = {}
        value = _POWER.get(name)
        if name == "rebuild":
            image = self._rng.choice(IMAGES)
            arguments["image"] = {"id": image.id, "checksum": image.checksum}
            value = image.id
        elif name == "rescue":
            arguments["password"] = "a password for now"
        elif name == "attach_interface":
            arguments["vif"] = self._world.new_uuid()
        elif name == "detach_interface":
            arguments["vif"] = row.ports[-1].id if row.ports else ""
        if verb.refusal(row.vm_state, row.task_state) or verb.objection(row, arguments):
            return
        if row.task_state == verb.task or (name == "attach_interface" and len(row.ports) > 1):
            return
        self._world.instances.want(row.uuid, verb.task, arguments)
        self._note(row.uuid, name, value)

    def _note(self, uuid: str, verb: str, value: Any) -> None:
        self._requests += 1
        if verb == "delete":
            self.given_up.add(uuid)
        if verb in ("create", "rebuild"):
            self.images[uuid] = value
        self._world.requests[uuid] = f"req-{self._requests}"
        self._asked.setdefault(uuid, []).append((verb, self._world.scheduler.now, value))
        row = self._world.instances.rows[uuid]
        self._world.log(f"user: {verb} {value} of {row.name} {uuid} on {row.host}")
        if row.host is None and row.task_state == TaskState.DELETING:
            # Nothing of it is anywhere: the API deletes it at once.
            self._world.instances.forget(uuid)

    def told(self, before: Instance, how: str, vm_state: str) -> None:
        """A request has ended."""
        uuid, now = before.uuid, self._world.scheduler.now
        fault = self._world.instances.faults.get(uuid, "") if how != "done" else ""
        self._world.log(f"told: {before.task_state} of {before.name} is {how}: {vm_state} {fault}")
        asked = self._asked.pop(uuid, [])
        if before.vm_state == "building" and vm_state == "error":
            self.given_up.add(uuid)
        last = BY_TASK[TaskState(str(before.task_state))].name
        for verb, when, value in asked:
            # What a delete has superseded may have had an effect or not.
            outcome = how if verb == last else "failed"
            if "interface" not in verb:  # The history has no VIFs.
                operation = Operation(verb, uuid, when, now, outcome, value)
                self._world.history.ended(operation)
            if verb in ("create", "delete"):
                self._hold(before, verb, when, outcome)
        self._world.look(self._world.instances.rows[uuid])

    def _hold(self, before: Instance, verb: str, asked: float, outcome: str) -> None:
        now = self._world.scheduler.now
        if before.node is not None and not (verb == "delete" and before.vm_state == "building"):
            kind = {"create": "acquire", "delete": "release"}[verb]
            operation = Operation(kind, before.uuid, asked, now, outcome)
            self._world.history.held(before.node, operation)

    def switched(self, row: Instance, power: str) -> None:
        """Somebody has pressed a server's button."""
        now = self._world.scheduler.now
        self._world.history.ended(Operation("hand", row.uuid, now, now, value=power))

    def may_become(self, row: Instance, verb: str, value: Any = None) -> None:
        """Something is done to a server that nobody asks for any more."""
        now = self._world.scheduler.now
        self._world.history.ended(Operation(verb, row.uuid, now, now, "failed", value))

    def delete_all(self) -> bool:
        """Ask for the end of all servers; whether there is any."""
        live = self._world.instances.live()
        for row in live:
            self._ask(row, "delete")
        return bool(self._world.instances.live())
