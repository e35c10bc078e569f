# SPDX-License-Identifier: Apache-2.0

"""Users: what they request, which answers they get, and what they see in Ironic then."""

import collections
import dataclasses
import random
import uuid
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from ironic_virt import exceptions, virt
from ironic_virt.compute import errors
from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.verbs import BY_NAME
from tests.chaos.nodes import Nodes
from tests.functional.compute.processes import FLAVOR
from tests.simulation.history import History, Operation
from tests.simulation.records import IMAGES

_VERBS = (
    *("rebuild", "reboot", "hard_reboot", "stop", "start", "start", "rescue", "unrescue"),
    *("unrescue", "delete", "attach_interface", "detach_interface"),
)
_UNLISTED = frozenset({"attach_interface", "detach_interface"})
_POWER = frozenset({"start", "stop", "reboot", "hard_reboot"})
_VALUES = {"start": "on", "stop": "off"}
UNSURE = 5.0
"""Seconds after which a request whose commit was cut off is there or never comes."""

_LOST = errors.DatabaseError


@dataclasses.dataclass(slots=True)
class Asked:
    """A request that has not ended.

    :ivar unsure: the connection was lost, so that it may not have been written down.
    """

    verb: str
    request_id: str
    when: float
    value: Any = None
    unsure: bool = False


class Users:
    """All users of a run.

    :param most: servers at a time.
    :param now: seconds since the beginning.
    :ivar given_up: the servers with a delete request.
    :ivar created: all that were ever asked for and written down.
    """

    def __init__(
        self,
        rng: random.Random,
        conf: cfg.ConfigOpts,
        db: Database,
        nodes: Nodes,
        history: History,
        most: int,
        now: Callable[[], float],
    ) -> None:
        self._rng = rng
        self._requests = Requests(conf, db, new_uuid=self._new_id)
        self._db = db
        self._nodes = nodes
        self._history = history
        self._most = most
        self._now = now
        self._next = 0.0
        self._pending: dict[str, list[Asked]] = {}
        self._on: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._last_id = ""
        self.created: set[str] = set()
        self.given_up: set[str] = set()
        self.told: collections.Counter[str] = collections.Counter()

    @property
    def is_idle(self) -> bool:
        """Whether each request has ended."""
        return not self._pending

    def act(self, pace: float) -> None:
        """Ask for something when it is time.

        :param pace: in seconds, on average.
        """
        if self._now() < self._next:
            return
        self._next = self._now() + self._rng.expovariate(1 / pace)
        try:
            live = list(self._db.instances.list())
        except _LOST:
            return
        if len(live) < self._most and self._rng.random() < 0.4:
            self._create()
        elif live:
            row = self._rng.choice(live)
            able = [one for one in _VERBS if _can_be_asked(one, row)]
            # Of one that is busy nothing else can be asked, and most are given their time.
            if able and (row.task_state is None or self._rng.random() < 0.05):
                self._ask(row, self._rng.choice(able))

    def _create(self) -> None:
        image = self._rng.choice(IMAGES)
        new = records.NewInstance(
            *(self._uuid(), FLAVOR, image),
            request_id=f"req-{self._uuid()}",
            ports=(virt.Vif(self._uuid()),),
        )
        asked = Asked("create", str(new.request_id), self._now(), image.id)
        try:
            self._requests.create(new)
        except _LOST:
            asked.unsure = True
        except exceptions.IronicVirtError:
            return
        self._note(new.uuid, asked)

    def _ask(self, row: records.Instance, verb: str) -> None:
        if any(one.verb == "delete" for one in self._pending.get(row.uuid, ())):
            return
        arguments: dict[str, Any] = {}
        value = _VALUES.get(verb)
        if verb == "rebuild":
            arguments["image"] = image = self._rng.choice(IMAGES)
            value = image.id
        elif verb == "rescue":
            arguments["password"] = "a password for now"
        elif verb == "attach_interface":
            arguments["vif"] = self._uuid()
        elif verb == "detach_interface":
            arguments["vif"] = row.ports[-1].id if row.ports else ""
        asked = Asked(verb, "", self._now(), value)
        try:
            request = self._requests.ask(verb, row.uuid, **arguments)
            asked.request_id = str(request.request_id)
        except _LOST:
            asked.request_id, asked.unsure = self._last_id, True
        except exceptions.IronicVirtError:
            return
        self._note(row.uuid, asked)

    def _new_id(self) -> str:
        """The id of the next request, which is known even if nobody answers."""
        made = self._uuid()
        self._last_id = f"req-{made}"
        return made

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _note(self, server: str, asked: Asked) -> None:
        self._history.add(asked.when, f"user: {asked.verb} {asked.value or ''} of {server}")
        self._pending.setdefault(server, []).append(asked)
        if asked.verb == "delete":
            self.given_up.add(server)

    # -- answers --------------------------------------------------------------

    def listen(self) -> None:
        """Take note of what has ended, and look at it in Ironic."""
        for server in list(self._pending):
            try:
                row = self._row(server)
            except _LOST:
                return
            if row is not None:
                self.created.add(server)
            for asked in list(self._pending[server]):
                fault = row.fault if row is not None else None
                if row is None and server in self.created:
                    error = None if asked.verb == "delete" else "it was deleted meanwhile"
                    self._end(server, asked, error, row)
                elif fault is not None and fault.request_id == asked.request_id:
                    self._end(server, asked, fault.message, row)
                elif row is not None and row.request_id == asked.request_id:
                    if row.task_state is None:
                        self._end(server, asked, None, row)
                elif not asked.unsure:
                    self._end(server, asked, None, row)
                elif self._now() > asked.when + UNSURE:
                    self._drop(server, asked)
            if not self._pending[server]:
                del self._pending[server]
                if row is not None and row.task_state is None:
                    self._look(row)

    def _row(self, server: str) -> records.Instance | None:
        try:
            return self._db.instances.get(server)
        except errors.NoSuchInstance:
            return None

    def _drop(self, server: str, asked: Asked) -> None:
        """It was never written down."""
        self._history.add(self._now(), f"never asked: {asked.verb} of {server}")
        self._pending[server].remove(asked)
        if asked.verb == "delete":
            self.given_up.discard(server)

    def _end(
        self, server: str, asked: Asked, error: str | None, row: records.Instance | None
    ) -> None:
        now = self._now()
        outcome = "done" if error is None else "failed"
        self.told[f"{asked.verb} {outcome}"] += 1
        self._history.add(now, f"told: {asked.verb} of {server} is {outcome}: {error or ''}")
        self._pending[server].remove(asked)
        if asked.verb not in _UNLISTED:
            self._last[server] = asked.verb if outcome == "done" else outcome
            one = Operation(asked.verb, server, asked.when, now, outcome, asked.value)
            self._history.ended(one)
        if outcome == "failed":
            return
        if asked.verb == "create" and row is not None and row.node is not None:
            self._on[server] = row.node
            self._history.held(row.node, Operation("acquire", server, asked.when, now))
        elif asked.verb == "delete" and server in self._on:
            self._history.held(self._on.pop(server), Operation("release", server, asked.when, now))

    def _look(self, row: records.Instance) -> None:
        """Compare a server's record with its node in Ironic, which nobody changes now."""
        if row.vm_state not in ("active", "stopped", "rescued") or row.uuid in self.given_up:
            return
        began = self._now()
        node = self._nodes.of(row.uuid)
        ended = self._now()
        if node is None:
            self._history.add(ended, f"saw: no node has {row.uuid}")
            seen: dict[str, Any] = {"image": None}
        else:
            seen = {
                "image": node["instance_info"].get("image_source"),
                "rescued": node["provision_state"] == "rescue",
            }
            # Ironic's fake hardware deploys and rescues without a touch of the power.
            if node["target_power_state"] is None and self._last.get(row.uuid) in _POWER:
                seen["power"] = str(node["power_state"]).removeprefix("power ")
            holder = Operation("look", row.uuid, began, ended, value=row.uuid)
            self._history.held(node["uuid"], holder)
            self._history.add(ended, f"saw: {row.uuid} on {node['uuid']}: {seen}")
        self._history.ended(Operation("look", row.uuid, began, ended, value=seen))

    def delete_all(self) -> bool:
        """Ask for the end of all servers; whether there is any."""
        live = list(self._db.instances.list())
        for row in live:
            self._ask(row, "delete")
        return bool(live)


def _can_be_asked(verb: str, row: records.Instance) -> bool:
    if row.host is None and verb != "delete":
        return False
    return BY_NAME[verb].refusal(row.vm_state, row.task_state) is None
