# SPDX-License-Identifier: Apache-2.0

"""The records of a reference service, in memory: what its tasks and its power sync use.

A host has them as :class:`Troubled` shows them: a database that fails, or whose answer to a
commit is lost.
"""

import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ironic_virt import virt
from ironic_virt.compute.db.records import Fault, Fence, Instance
from ironic_virt.compute.errors import ClaimLost, DatabaseUnreachable, NoSuchInstance
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

    def live(self, host: str | None = None) -> list[Instance]:
        """All instances, or a host's, that aren't deleted."""
        rows = self.rows.values()
        return [one for one in rows if not one.is_deleted and host in (None, one.host)]

    # -- as ironic_virt.compute.db.instance_records has them -------------------------

    def get(self, uuid: str) -> Instance:
        found = self.rows.get(uuid)
        if found is None or found.is_deleted:
            raise NoSuchInstance(uuid)
        return found

    def settled(self, host: str, states: Collection[VmState]) -> list[Instance]:
        return [one for one in self.live(host) if not one.task_state and one.vm_state in states]

    def hosts(self, uuids: Iterable[str]) -> dict[str, str | None]:
        return {uuid: self.rows[uuid].host for uuid in uuids if uuid in self.rows}

    def placed(self, uuid: str, node: str, fence: Fence) -> bool:
        if not self._holds(uuid, TaskState.SPAWNING, fence):
            return False
        if any(one.node == node and one.uuid != uuid for one in self.live()):
            raise ClaimLost(node, uuid)
        self._set(uuid, node=node)
        return True

    def finish(
        self,
        uuid: str,
        task: TaskState,
        *,
        vm_state: VmState,
        power_state: virt.PowerState | None,
        fence: Fence,
    ) -> bool:
        if not self._holds(uuid, task, fence):
            return False
        changes: dict[str, Any] = {"vm_state": vm_state}
        if power_state is not None:
            changes["power_state"] = power_state
        self._end(uuid, "done", **changes, **self._taken_over(uuid, task))
        return True

    def deleted(self, uuid: str, fence: Fence) -> bool:
        if not self._holds(uuid, TaskState.DELETING, fence):
            return False
        self._end(uuid, "done", vm_state=VmState.DELETED)
        return True

    def fail(
        self,
        uuid: str,
        task: TaskState | None,
        fault: Fault,
        *,
        vm_state: VmState = VmState.ERROR,
        release: bool = False,
        applied: bool = False,
        fence: Fence | None = None,
    ) -> bool:
        if not self._holds(uuid, task, fence):
            return False
        changes: dict[str, Any] = {"vm_state": vm_state}
        if applied and task is not None:
            changes |= self._taken_over(uuid, task)
        if release:
            changes |= {"host": None, "node": None}
        self.faults[uuid] = fault.message
        self._failed(self.rows[uuid], fault.message)
        # Only of a rebuild is said that it has changed nothing.
        untouched = task == TaskState.REBUILDING and not applied
        self._end(uuid, "refused" if untouched else "failed", **changes)
        return True

    def power_seen(
        self, seen: Instance, power_state: virt.PowerState, *, vm_state: VmState
    ) -> bool:
        if self.rows[seen.uuid] is not seen:
            return False
        self._set(seen.uuid, power_state=power_state, vm_state=vm_state)
        return True

    def reschedule(
        self, instance: Instance, given_up: str | None, refused: bool, **to: Any
    ) -> None:
        """Give a build another place."""
        tried = (*instance.tried_nodes, *([given_up] if given_up else []))
        self._set(
            instance.uuid,
            attempts=instance.attempts + 1,
            refusals=instance.refusals + refused,
            tried_nodes=tried,
            **to,
        )

    def fits(self, uuid: str, task: TaskState | None, fence: Fence | None) -> bool:
        """Whether an outcome may be written."""
        return self._holds(uuid, task, fence)

    def _holds(self, uuid: str, task: TaskState | None, fence: Fence | None) -> bool:
        found = self.rows[uuid]
        if found.is_deleted or found.task_state != task:
            return False
        if fence is None:
            return True
        same = (found.host, found.attempts) == (fence.host, fence.attempts)
        alive = self.incarnations.get(fence.host or "") == fence.incarnation
        return same and alive and fence.node in (None, found.node)

    def _taken_over(self, uuid: str, task: TaskState) -> dict[str, Any]:
        return dict(BY_TASK[task].changes(self.rows[uuid]))

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

        :raises DatabaseUnreachable: the database can't be used.
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


def _unreachable(reason: str) -> DatabaseUnreachable:
    return DatabaseUnreachable("memory://", reason)
