# SPDX-License-Identifier: Apache-2.0

"""Is this node free, and what does it offer?  Decided from data alone."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.driver import resources
from ironic_virt.virt import PowerState

UUID = "a1b2c3d4-0000-4000-8000-000000000000"
INSTANCE = "6d2b4f02-0000-4000-8000-000000000001"


def node(**fields: Any) -> Node:
    free = {"provision_state": states.AVAILABLE, "power_state": states.POWER_OFF}
    return Node(uuid=UUID, resource_class="gold.8", **(free | fields))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"instance_uuid": INSTANCE}, INSTANCE),
        ({"maintenance": True, "maintenance_reason": "fan"}, r"in maintenance \(fan\)"),
        ({"retired": True}, "retired"),
        ({"power_state": None}, "power state not known"),
        ({"power_state": states.POWER_ERROR}, "power state error"),
        ({"power_state": "warm"}, "power state warm"),
        ({"malformed": ("maintenance",)}, "can't be read: maintenance"),
        ({"provision_state": "brand new state"}, "brand new state"),
    ],
)
def test_a_node_that_is_not_free_says_why(fields: dict[str, Any], says: str) -> None:
    reason = resources.why_not_free(node(**fields))
    assert re.search(says, reason or "")


@given(st.sampled_from(sorted(states.ALL)) | st.text())
def test_no_state_but_available_is_free(state: str) -> None:
    is_free = state == states.AVAILABLE
    assert (resources.why_not_free(node(provision_state=state)) is None) is is_free
    assert resources.node_inventory(node(provision_state=state)).reserved == (not is_free)


@pytest.mark.parametrize("power", [states.POWER_ON, states.POWER_OFF])
def test_the_inventory_of_a_free_node(power: str) -> None:
    offer = resources.node_inventory(node(power_state=power, traits=frozenset({"CUSTOM_GPU"})))
    assert (offer.resource_class, offer.placement_class) == ("gold.8", "CUSTOM_GOLD_8")
    assert (offer.total, offer.reserved) == (1, 0)
    assert offer.traits == {"CUSTOM_GPU"}


def test_a_node_without_resource_class_offers_nothing() -> None:
    offer = resources.node_inventory(Node(uuid=UUID))
    assert (offer.total, offer.reserved, offer.placement_class) == (0, 0, "")


@pytest.mark.parametrize(
    ("name", "placement"),
    [
        ("baremetal", "CUSTOM_BAREMETAL"),
        ("gold.8", "CUSTOM_GOLD_8"),
        ("CUSTOM_GOLD", "CUSTOM_CUSTOM_GOLD"),
        ("R640 (96G)", "CUSTOM_R640_96G_"),
        ("bm--2", "CUSTOM_BM_2"),
        ("bm-größe", "CUSTOM_BM_GR_E"),
    ],
)
def test_resource_classes_in_placements_form(name: str, placement: str) -> None:
    assert resources.placement_class(name) == placement


@pytest.mark.parametrize(
    ("power", "state"),
    [
        (states.POWER_ON, PowerState.RUNNING),
        (states.POWER_OFF, PowerState.SHUTDOWN),
        (states.POWER_ERROR, PowerState.NOSTATE),
        (None, PowerState.NOSTATE),
        ("warm", PowerState.NOSTATE),
    ],
)
def test_power_states_in_the_contracts_words(power: str | None, state: PowerState) -> None:
    assert resources.power_of(node(power_state=power)).state is state
