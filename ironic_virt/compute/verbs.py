# SPDX-License-Identifier: Apache-2.0

"""What can be asked of an instance: a verb is one row.

The rows drive the requests (:mod:`ironic_virt.compute.api`), what the records take over when a
task has ended, the tasks of a service, and the words of the command line.  A new verb is a row
here, an action, a task state, a command and its entry point.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions, virt
from ironic_virt.compute import actions
from ironic_virt.compute.actions import Settled, Task
from ironic_virt.compute.errors import InvalidRequest
from ironic_virt.compute.states import TaskState, VmState

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Instance

LONGEST_NAME = 255
"""Characters of a name in the records."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""What names an instance by its uuid only."""

LONGEST_PASSWORD = 128
_PASSWORD_LENGTH = 16
# Nothing that is taken for something else when it is read off one screen into another.
_SYMBOLS = ("23456789", "ABCDEFGHJKLMNPQRSTUVWXYZ", "abcdefghijkmnopqrstuvwxyz")

Arguments = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """Something that can be asked of an instance.

    :param name: what programs call it.
    :param task: what is wanted from then on.
    :param allowed_in: the states in which it can be asked for, as long as nothing else is
        wanted; none: it comes with the instance itself.
    :param carry_out: does it, and returns what the instance is then; ``None``: it is not wanted
        any more.
    :param failed: says what the instance is after an error; ``None``: the task goes on.
    :param later: errors that decide nothing: the task is carried out again.
    :param check: raises :class:`InvalidRequest` if the arguments can't be right.
    :param objection: says why an instance can't take it, in words for its sender.
    :param changes: the columns of the record that change when it is done.
    :param launches: when it is done the instance runs what it did not run before.
    :param claims_port: the argument ``vif`` becomes this instance's alone when it is asked for.
    :param doing: a title for the time that it takes; ``until``: what ends it.
    """

    name: str
    task: TaskState
    allowed_in: frozenset[VmState]
    carry_out: Callable[[Task], Settled | None]
    failed: Callable[[Task, Exception], Settled | None] = actions.as_before
    later: tuple[type[Exception], ...] = actions.OUT_OF_REACH
    check: Callable[[Arguments], None] = lambda arguments: None
    objection: Callable[[Instance, Arguments], str | None] = lambda instance, arguments: None
    changes: Callable[[Instance], dict[str, Any]] = lambda instance: {}
    launches: bool = False
    claims_port: bool = False
    doing: str = ""
    until: str = ""

    def refusal(self, vm_state: str, task_state: str | None) -> str | None:
        """Why it can't be asked for now, in words for its sender; ``None``: it can.

        A delete supersedes any other request.
        """
        if vm_state not in self.allowed_in:
            states = ", ".join(sorted(state.value for state in self.allowed_in))
            refused = f"it is {vm_state}, and {self.name} needs one that is {states}"
            return f"{refused}; unrescue it first" if vm_state == VmState.RESCUED else refused
        if task_state is not None and self.task is not TaskState.DELETING:
            return f"it is busy ({task_state}); wait until that is done, or delete it"
        return None


# -- arguments and what they change -------------------------------------------


def check_port(port: str) -> None:
    """See that a port's id can be one.

    :raises InvalidRequest: it can't.
    """
    if not 0 < len(port) <= LONGEST_NAME:
        raise InvalidRequest(f"a port's id has 1 to {LONGEST_NAME} characters")


def generate_password() -> str:
    """A password for a rescue, with a digit, a capital and a small letter at least."""
    rng = random.SystemRandom()
    symbols = [rng.choice(group) for group in _SYMBOLS]
    symbols += rng.choices("".join(_SYMBOLS), k=_PASSWORD_LENGTH - len(symbols))
    rng.shuffle(symbols)
    return "".join(symbols)


def check_password(password: str) -> None:
    """See that a password can be typed into a console.

    :raises InvalidRequest: it can't; says why, and nothing of it.
    """
    if not password.strip():
        raise InvalidRequest("the password is empty")
    if len(password) > LONGEST_PASSWORD:
        raise InvalidRequest(f"the password has more than {LONGEST_PASSWORD} characters")
    if not password.isprintable():
        raise InvalidRequest("the password has characters that can't be printed")


def _has_it(instance: Instance, arguments: Arguments) -> str | None:
    if instance.networks:
        # Their addresses are on the ports that no VIF has, also after a rebuild.
        return "a server has networks or ports, not both"
    has = arguments["vif"] in [port.id for port in instance.ports]
    return f"it has the interface {arguments['vif']} already" if has else None


def _lacks_it(instance: Instance, arguments: Arguments) -> str | None:
    has = [port.id for port in instance.ports]
    reason = f"it has no interface {arguments['vif']}; it has {', '.join(has) or 'none'}"
    return None if arguments["vif"] in has else reason


def _rebuilt(instance: Instance) -> dict[str, Any]:
    image = instance.arguments.get("image")
    return {} if image is None else {"image": virt.ImageMeta(**image)}


def _other_ports(instance: Instance) -> tuple[virt.Vif, ...]:
    return tuple(port for port in instance.ports if port.id != instance.arguments["vif"])


# -- the rows -----------------------------------------------------------------

_RUNNING_OR_BROKEN = frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.ERROR})

_ROWS = (
    Verb(
        name="create",
        task=TaskState.SPAWNING,
        allowed_in=frozenset(),
        carry_out=lambda task: task.build(task),
        failed=lambda task, error: task.build.failed(task, error),
        launches=True,
        doing="Building",
        until="all are built or have failed",
    ),
    Verb(
        name="delete",
        task=TaskState.DELETING,
        allowed_in=frozenset(VmState) - {VmState.DELETED},
        carry_out=actions.delete,
        failed=lambda task, error: Settled(VmState.ERROR, applied=False),
        later=(*actions.OUT_OF_REACH, exceptions.NodeLocked),
        doing="Deleting",
        until="they are gone",
    ),
    Verb(
        name="start",
        task=TaskState.POWERING_ON,
        allowed_in=frozenset({VmState.STOPPED}),
        carry_out=actions.power_on,
        doing="Starting",
        until="they run",
    ),
    Verb(
        name="stop",
        task=TaskState.POWERING_OFF,
        allowed_in=frozenset({VmState.ACTIVE}),
        carry_out=actions.power_off,
        doing="Stopping",
        until="they are off",
    ),
    Verb(
        name="reboot",
        task=TaskState.REBOOTING,
        allowed_in=frozenset({VmState.ACTIVE}),
        carry_out=actions.reboot,
        doing="Rebooting",
        until="they run again",
    ),
    Verb(
        name="hard_reboot",
        task=TaskState.REBOOTING_HARD,
        allowed_in=_RUNNING_OR_BROKEN,
        carry_out=lambda task: actions.reboot(task, "HARD"),
        doing="Rebooting",
        until="they run again",
    ),
    Verb(
        name="rebuild",
        task=TaskState.REBUILDING,
        allowed_in=_RUNNING_OR_BROKEN,
        carry_out=actions.rebuild,
        failed=actions.rebuild_failed,
        launches=True,
        changes=_rebuilt,
        doing="Rebuilding",
        until="it runs again",
    ),
    Verb(
        name="rescue",
        task=TaskState.RESCUING,
        allowed_in=_RUNNING_OR_BROKEN,
        carry_out=actions.rescue,
        failed=actions.rescue_failed,
        check=lambda arguments: check_password(arguments["password"]),
        doing="Rescuing",
        until="the rescue system is there",
    ),
    Verb(
        name="unrescue",
        task=TaskState.UNRESCUING,
        # In error is one whose unrescue has failed.
        allowed_in=frozenset({VmState.RESCUED, VmState.ERROR}),
        carry_out=actions.unrescue,
        failed=actions.rescue_failed,
        doing="Unrescuing",
        until="they run their own systems",
    ),
    Verb(
        name="attach_interface",
        task=TaskState.ATTACHING_INTERFACE,
        allowed_in=frozenset({VmState.ACTIVE, VmState.STOPPED, VmState.RESCUED}),
        carry_out=actions.attach_interface,
        failed=actions.attach_failed,
        check=lambda arguments: check_port(arguments["vif"]),
        objection=_has_it,
        changes=lambda instance: {
            "ports": (*_other_ports(instance), virt.Vif(instance.arguments["vif"]))
        },
        claims_port=True,
        doing="Attaching an interface to",
        until="it is attached",
    ),
    Verb(
        name="detach_interface",
        task=TaskState.DETACHING_INTERFACE,
        # From one that is rescued Ironic would not disconnect it.
        allowed_in=_RUNNING_OR_BROKEN,
        carry_out=actions.detach_interface,
        objection=_lacks_it,
        changes=lambda instance: {"ports": _other_ports(instance)},
        doing="Detaching an interface from",
        until="it is detached",
    ),
    Verb(
        name="trigger_crash_dump",
        task=TaskState.TRIGGERING_CRASH_DUMP,
        allowed_in=frozenset({VmState.ACTIVE, VmState.RESCUED, VmState.ERROR}),
        carry_out=actions.trigger_crash_dump,
        doing="Sending an NMI to",
        until="the NMI is sent",
    ),
)

BY_NAME = {verb.name: verb for verb in _ROWS}
BY_TASK = {verb.task: verb for verb in _ROWS}
