# SPDX-License-Identifier: Apache-2.0

"""The records of a reference service, in memory: what its tasks and its power sync use.

A host has them as :class:`Troubled` shows them: a database that fails, or whose answer to a
commit is lost.
"""

import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ironic_virt import virt
from ironic_virt.compute.actions import Settled
from ironic_virt.compute.db.records import Fault, Instance
from ironic_virt.compute.errors import ClaimLost, DatabaseError, NoSuchInstance
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.compute.verbs import BY_TASK

_EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
IMAGES = tuple(
    virt.ImageMeta(f"https://images.example.test/{name}.raw", checksum=name * 32) for name in "abc"
)
SECRET = "correct horse battery staple"


@dataclasses.dataclass(slots=True)
class Offer:
    """A node, or a pool, as its host last reported it."""

    host: str
    free: int


class Instances:
    """The instances of all hosts.

    :param answered: called when a request has ended, with the answer for its user.
    :param left: called with a node that an instance has left.
    :param failed: called with an instance and the reason why a request has failed.
    :ivar incarnations: the process that is a host now.
    """

    def __init__(
        self,
        answered: Callable[[Instance, str, str], None],
        left: Callable[[str], None],
        failed: Callable[[Instance, str], None],
    ) -> None:
        self.rows: dict[str, Instance] = {}
        self.incarnations: dict[str, str] = {}
        self.faults: dict[str, str] = {}
        self._answered = answered
        self._left = left
        self._failed = failed

    # -- what users do --------------------------------------------------------

    def create(self, uuid: str, image: virt.ImageMeta | None, vif: str, **places: Any) -> Instance:
        """Write a new instance down; it is to be built."""
        fields: dict[str, Any] = dict.fromkeys(
            field.name for field in dataclasses.fields(Instance)
        )
        wanted = {"resources:CUSTOM_GOLD": "1"}
        fields |= {
            "uuid": uuid,
            "display_name": f"server-{len(self.rows) + 1}",
            "vm_state": VmState.BUILDING,
            "task_state": TaskState.SPAWNING,
            "power_state": virt.PowerState.NOSTATE,
            "flavor": virt.Flavor("bm", root_gb=10, extra_specs=wanted),
            "image": image,
            "ports": (virt.Vif(vif),),
            "arguments": {},
            "properties": {},
            "attempts": 1,
            "refusals": 0,
            "tried_nodes": (),
            "created_at": _EPOCH,
            **places,
        }
        self.rows[uuid] = Instance(**fields)
        return self.rows[uuid]

    def want(self, uuid: str, task: TaskState, arguments: Mapping[str, Any]) -> None:
        """Ask for something."""
        self._set(uuid, task_state=task, arguments=arguments)

    def forget(self, uuid: str) -> None:
        """Delete what is nowhere."""
        self._end(uuid, "done", vm_state=VmState.DELETED)

    def live(self, host: str | None = None) -> Sequence[Instance]:
        """All instances, or a host's, that aren't deleted."""
        rows = self.rows.values()
        return [one for one in rows if not one.is_deleted and host in (None, one.host)]

    # -- as ironic_virt.compute.db.instance_records has them -------------------------

    def get(self, uuid: str) -> Instance:
        found = self.rows.get(uuid)
        if found is None or found.is_deleted:
            raise NoSuchInstance(uuid)
        return found

    def list(self, host: str) -> Sequence[Instance]:
        return self.live(host)

    def hosts(self, uuids: Iterable[str]) -> dict[str, str | None]:
        return {uuid: self.rows[uuid].host for uuid in uuids if uuid in self.rows}

    def placed(self, began: Instance, node: str, incarnation: str) -> bool:
        if not self.fits(began, incarnation):
            return False
        if any(one.node == node and one.uuid != began.uuid for one in self.live()):
            raise ClaimLost(node, began.uuid)
        self._set(began.uuid, node=node)
        return True

    def settle(self, began: Instance, settled: Settled, incarnation: str | None = None) -> bool:
        if not self.fits(began, incarnation):
            return False
        uuid, task, fault = began.uuid, began.task_state, settled.fault
        changes: dict[str, Any] = {"vm_state": settled.vm_state}
        if settled.power_state is not None:
            changes["power_state"] = settled.power_state
        if settled.applied and task is not None:
            changes |= BY_TASK[TaskState(task)].changes(self.rows[uuid])
        if settled.released:
            changes |= {"host": None, "node": None}
        if fault is None and task is None:
            self._set(uuid, **changes)
            return True
        how = "done"
        if fault is not None:
            self.faults[uuid] = fault.message
            self._failed(self.rows[uuid], fault.message)
            # Only of a rebuild is said that it has changed nothing.
            untouched = task == TaskState.REBUILDING and not settled.applied
            how = "refused" if untouched else "failed"
        self._end(uuid, how, **changes)
        return True

    def reschedule(
        self, began: Instance, place: Any, fault: Fault, incarnation: str, *,
        tried: str | None, refused: bool,
    ) -> bool:  # fmt: skip
        """Give a build another place."""
        if not self.fits(began, incarnation):
            return False
        self._failed(began, fault.message)
        self._set(
            began.uuid,
            attempts=began.attempts + 1,
            refusals=began.refusals + refused,
            tried_nodes=(*began.tried_nodes, *([tried] if tried else [])),
            **place.columns(),
        )
        return True

    def fits(self, began: Instance, incarnation: str | None) -> bool:
        """Whether an outcome may be written."""
        row = self.rows[began.uuid]
        if row.is_deleted or row.task_state != began.task_state:
            return False
        if incarnation is None:
            return row is began
        same = (row.host, row.attempts) == (began.host, began.attempts)
        return same and self.incarnations.get(began.host or "") == incarnation

    def _end(self, uuid: str, how: str, **changes: Any) -> None:
        before = self.rows[uuid]
        if before.task_state is not None:
            changes["arguments"] = {}
        self._set(uuid, task_state=None, **changes)
        self._answered(before, how, self.rows[uuid].vm_state)

    def _set(self, uuid: str, **changes: Any) -> None:
        before = self.rows[uuid]
        after = self.rows[uuid] = dataclasses.replace(before, **changes)
        if before.node is not None and (after.node != before.node or after.is_deleted):
            self._left(before.node)


class Troubled:
    """The instances as a host has them.

    :param draw: the fault that a statement meets: ``database``, ``lost commit`` or none.
    """

    def __init__(self, instances: Instances, draw: Callable[[], str | None]) -> None:
        self._instances = instances
        self._draw = draw

    def check(self) -> None:
        """Read something else.

        :raises DatabaseError: the database can't be used.
        """
        if self._draw() == "database":
            raise _unreachable("it is deadlocked")

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._instances, name)

        def ask(*args: Any, **more: Any) -> Any:
            fault = self._draw()
            if fault == "database":
                raise _unreachable("it is deadlocked")
            answer = asked(*args, **more)
            if fault == "lost commit":
                raise _unreachable("the connection was lost during a commit")
            return answer

        return ask


def _unreachable(reason: str) -> DatabaseError:
    return DatabaseError("memory://", reason)
