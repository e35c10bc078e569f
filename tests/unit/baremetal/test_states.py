# SPDX-License-Identifier: Apache-2.0

"""What each state means: complete, and careful with what is unknown."""

import pytest

from ironic_virt.baremetal import states
from ironic_virt.baremetal.states import TearDownStep, tear_down_step

# Ironic 39.0.0 takes the verb "deleted" in these states, and in no other.
DELETABLE = {
    states.ACTIVE,
    states.DEPLOY_WAIT,
    states.DEPLOY_FAILED,
    states.ERROR,
    states.RESCUE,
    states.RESCUE_WAIT,
    states.RESCUE_FAILED,
    states.UNRESCUE_FAILED,
    states.SERVICE_WAIT,
    states.SERVICE_FAILED,
}


@pytest.mark.parametrize("state", sorted(states.ALL))
def test_every_state_has_a_way_out(state: str) -> None:
    step = tear_down_step(state)
    assert (step is TearDownStep.REQUEST) == (state in DELETABLE)


@pytest.mark.parametrize("state", sorted(states.TRANSITIONAL - DELETABLE))
def test_passing_states_are_waited_for_and_held_ones_are_not(state: str) -> None:
    held = {states.DEPLOY_HOLD: TearDownStep.UNHOLD, states.SERVICE_HOLD: TearDownStep.ABORT}
    assert tear_down_step(state) is held.get(state, TearDownStep.WAIT)


def test_an_available_node_has_nothing_to_tear_down() -> None:
    assert tear_down_step(states.AVAILABLE) is TearDownStep.RELEASE


@pytest.mark.parametrize("state", ["levitating", "", "Available", "ACTIVE"])
def test_an_unknown_state_is_never_taken_as_torn_down(state: str) -> None:
    assert tear_down_step(state) is TearDownStep.REQUEST


def test_sets_are_of_known_states_and_rest_is_not_transitional() -> None:
    for some in (states.TRANSITIONAL, states.DEPLOY_IN_PROGRESS, states.DEPLOYED):
        assert some <= states.ALL
    at_rest = {states.AVAILABLE, states.ACTIVE, states.ENROLL, states.MANAGEABLE, states.RESCUE}
    assert not at_rest & states.TRANSITIONAL
    assert not any("failed" in state for state in states.TRANSITIONAL)
