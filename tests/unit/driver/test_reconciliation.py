# SPDX-License-Identifier: Apache-2.0

"""Allocations that nobody wants any more, and those that somebody does."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ironic_virt.driver import request_notes
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import INSTANCE, STRANGER, Stage

SetStage = Callable[..., Stage]
PERIOD = 600


@pytest.fixture
def stage(fake: FakeIronic, set_stage: SetStage) -> Stage:
    stage = set_stage(fake, node_selection="ironic", inventory_full_resync_period=PERIOD)
    stage.service.owned = set()
    return stage


def leave(stage: Stage, node: str, uuid: str = INSTANCE, host: str = "compute1") -> None:
    """An allocation that a process has left."""
    extra = request_notes.notes(stage.instance(None), None, host)
    stage.driver._client.allocations.create(
        uuid, resource_class="gold", candidate_nodes=[node], extra=extra
    )


def look(stage: Stage, times: int = 1) -> None:
    """Let so many periods go by, with a refresh at the end of each."""
    for _ in range(times):
        stage.driver.get_available_nodes(refresh=True)
        stage.fake.advance(PERIOD + 1)


def left(fake: FakeIronic) -> list[str]:
    return [one["uuid"] for one in fake.allocations()]


def test_one_that_nobody_wants_goes_when_it_is_found_so_twice(
    fake: FakeIronic, stage: Stage, node: str
) -> None:
    leave(stage, node)
    look(stage)
    assert left(fake) == [INSTANCE]
    look(stage)
    assert left(fake) == []
    assert fake.node(node)["instance_uuid"] is None


def test_refreshes_in_between_are_no_second_time(
    fake: FakeIronic, stage: Stage, node: str
) -> None:
    leave(stage, node)
    for _ in range(5):
        stage.driver.get_available_nodes(refresh=True)
    assert left(fake) == [INSTANCE]
    assert len(fake.requests.matching("GET", "/allocations$")) == 1


def test_one_in_error_goes_too(fake: FakeIronic, stage: Stage, node: str) -> None:
    fake.set_node(node, maintenance=True)
    leave(stage, node)
    assert fake.allocations()[0]["state"] == "error"
    look(stage, 2)
    assert left(fake) == []


@pytest.mark.parametrize("whose", ["owned", "hosts"])
def test_one_of_an_instance_that_exists_stays_whoever_has_it(
    fake: FakeIronic, stage: Stage, node: str, whose: str
) -> None:
    leave(stage, node)
    if whose == "owned":
        stage.service.owned = {INSTANCE}
    else:
        stage.service.hosts = {INSTANCE: "compute2"}
    look(stage, 4)
    assert left(fake) == [INSTANCE]


def test_one_that_was_wanted_in_between_begins_anew(
    fake: FakeIronic, stage: Stage, node: str
) -> None:
    leave(stage, node)
    look(stage)
    stage.service.owned = {INSTANCE}
    look(stage)
    stage.service.owned = set()
    look(stage)
    assert left(fake) == [INSTANCE]


def test_what_others_have_made_stays(fake: FakeIronic, stage: Stage, node: str) -> None:
    leave(stage, node, host="compute2")
    stage.driver._client.allocations.create(
        STRANGER, resource_class="gold", candidate_nodes=[fake.add_node(resource_class="gold")]
    )
    look(stage, 4)
    assert sorted(left(fake)) == sorted([INSTANCE, STRANGER])


def test_what_is_in_use_stays_and_is_told_once(
    fake: FakeIronic, stage: Stage, node: str, caplog: pytest.LogCaptureFixture
) -> None:
    leave(stage, node)
    fake.settle()
    fake.set_node(node, provision_state="active")
    with caplog.at_level(logging.WARNING):
        look(stage, 5)
    assert left(fake) == [INSTANCE]
    assert fake.node(node)["instance_uuid"] == INSTANCE
    assert [one for one in caplog.messages if "stays" in one] == [caplog.messages[0]]


def test_one_whose_node_left_the_shard_stays(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, node_selection="ironic", shard_key="s", inventory_sweep_interval=0)
    stage.service.owned = set()
    node = fake.add_node(resource_class="gold", shard="s")
    leave(stage, node)
    fake.settle()
    fake.set_node(node, shard="t")
    look(stage, 4)
    assert left(fake) == [INSTANCE]


def test_a_list_that_fails_is_asked_for_again(fake: FakeIronic, stage: Stage, node: str) -> None:
    leave(stage, node)
    look(stage)
    fake.faults.status(500, "GET", "/allocations$")
    look(stage)
    assert left(fake) == [INSTANCE]
    stage.driver.get_available_nodes(refresh=True)
    assert left(fake) == []


def test_nothing_is_listed_while_the_scheduler_picks(
    fake: FakeIronic, set_stage: SetStage, stage: Stage, node: str
) -> None:
    leave(stage, node)
    fake.requests.clear()
    look(set_stage(fake), 3)
    assert fake.requests.matching("GET", "/allocations") == []
    assert left(fake) == [INSTANCE]


def test_records_that_can_not_be_asked_give_nothing_up(
    fake: FakeIronic, stage: Stage, node: str
) -> None:
    leave(stage, node)
    look(stage)

    def broken(uuids: Any) -> Any:
        raise ConnectionError("the database is away")

    stage.service.existing_instances = broken  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        look(stage)
    assert left(fake) == [INSTANCE]
