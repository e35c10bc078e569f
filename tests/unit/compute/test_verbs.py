# SPDX-License-Identifier: Apache-2.0

"""What may be asked of an instance in which state."""

import pytest

from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.compute.verbs import BY_NAME, BY_TASK, check_password, generate_password


def refusal(wanted: TaskState, vm_state: VmState, task_state: TaskState | None) -> str | None:
    return BY_TASK[wanted].refusal(vm_state, task_state)


ALIVE = [state for state in VmState if state is not VmState.DELETED]


@pytest.mark.parametrize("vm_state", ALIVE)
@pytest.mark.parametrize("task_state", [None, *TaskState])
def test_a_delete_is_always_taken(vm_state: VmState, task_state: TaskState | None) -> None:
    assert refusal(TaskState.DELETING, vm_state, task_state) is None


@pytest.mark.parametrize(
    ("wanted", "allowed"),
    [
        (TaskState.POWERING_ON, {VmState.STOPPED}),
        (TaskState.POWERING_OFF, {VmState.ACTIVE}),
        (TaskState.REBOOTING, {VmState.ACTIVE}),
        (TaskState.REBOOTING_HARD, {VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
        (TaskState.REBUILDING, {VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
        (TaskState.RESCUING, {VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
        (TaskState.ATTACHING_INTERFACE, {VmState.ACTIVE, VmState.STOPPED, VmState.RESCUED}),
        (TaskState.DETACHING_INTERFACE, {VmState.ACTIVE, VmState.STOPPED, VmState.ERROR}),
        (TaskState.TRIGGERING_CRASH_DUMP, {VmState.ACTIVE, VmState.RESCUED, VmState.ERROR}),
        (TaskState.UNRESCUING, {VmState.RESCUED, VmState.ERROR}),
        (TaskState.SPAWNING, set()),
    ],
)
def test_anything_else_needs_a_fitting_state_and_peace(wanted, allowed) -> None:
    assert {state for state in VmState if refusal(wanted, state, None) is None} == allowed
    for state in allowed:
        assert "it is busy (rebooting)" in (refusal(wanted, state, TaskState.REBOOTING) or "")


def test_what_is_rescued_has_to_be_unrescued_first() -> None:
    taken = {TaskState.UNRESCUING, TaskState.DELETING}
    taken |= {TaskState.ATTACHING_INTERFACE, TaskState.TRIGGERING_CRASH_DUMP}
    for wanted in set(TaskState) - taken - {TaskState.SPAWNING}:
        assert "unrescue it first" in (refusal(wanted, VmState.RESCUED, None) or ""), wanted
    assert "unrescue it" not in (refusal(TaskState.REBOOTING, VmState.STOPPED, None) or "")


def test_each_task_and_each_name_has_one_row() -> None:
    assert BY_TASK.keys() == set(TaskState)
    assert {verb.name for verb in BY_TASK.values()} == BY_NAME.keys()


def test_a_password_has_all_kinds_of_symbols() -> None:
    for _ in range(200):
        password = generate_password()
        assert len(password) == 16
        check_password(password)
        assert any(symbol.isdigit() for symbol in password)
        assert any(symbol.islower() for symbol in password)
        assert any(symbol.isupper() for symbol in password)
        assert not set("0O1lI") & set(password)
