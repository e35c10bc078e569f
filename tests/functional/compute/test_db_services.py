# SPDX-License-Identifier: Apache-2.0

"""Compute services' records: who is up, who was superseded, who can go."""

import pytest

from ironic_virt.compute import errors
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Fault
from ironic_virt.compute.states import TaskState
from tests.functional.compute.stage import (
    Clock,
    create_building,
    failed,
    free_node,
    new_instance,
    new_uuid,
    register,
)


def heartbeat(db: Database, host: str, incarnation: str) -> None:
    db.services.heartbeat(host, incarnation, conductor_group=None, shard_key="a")


def test_a_service_is_up_until_it_has_been_silent_for_too_long(db: Database, clock: Clock) -> None:
    service = register(db, "one", conductor_group="", shard_key="a")
    assert (service.conductor_group, service.shard_key) == ("", "a")
    clock.advance(60)
    assert db.services.up() == ["one"]
    clock.advance(0.001)
    assert db.services.up() == []
    clock.advance(-180.001)
    assert db.services.up() == [], "nor does it come back when the clock is set back"
    heartbeat(db, "one", service.incarnation)
    assert db.services.up() == ["one"]
    assert db.services.get("one").last_seen_at == clock.now
    assert db.services.get("one").conductor_group is None


def test_a_service_forced_down_is_down_whatever_it_reports(db: Database) -> None:
    service = register(db, "one")
    db.services.update("one", forced_down=True)
    heartbeat(db, "one", service.incarnation)
    assert db.services.up() == []
    db.services.update("one", forced_down=False)
    assert db.services.up() == ["one"]


def test_a_superseded_process_learns_so_and_changes_nothing(db: Database, clock: Clock) -> None:
    first = register(db, "one")
    clock.advance(5)
    second = register(db, "one", version="2.0")
    clock.advance(5)
    with pytest.raises(errors.ServiceSuperseded):
        heartbeat(db, "one", first.incarnation)
    assert db.services.get("one") == second


def test_a_report_that_comes_late_does_not_bring_a_service_back(db: Database) -> None:
    service = register(db, "one")
    db.services.leave("one", service.incarnation)
    heartbeat(db, "one", service.incarnation)
    assert db.services.up() == []


def test_what_an_operator_has_set_survives_a_restart(db: Database) -> None:
    register(db, "one")
    db.services.update("one", disabled=True, disabled_reason="memory", forced_down=True)
    again = register(db, "one")
    assert (again.disabled, again.disabled_reason, again.forced_down) == (True, "memory", True)
    assert db.services.update("one", disabled=True).disabled_reason == "memory"
    enabled = db.services.update("one", disabled=False)
    assert (enabled.disabled, enabled.disabled_reason) == (False, None)


def test_a_service_that_is_up_or_owns_something_is_not_deleted(db: Database, clock: Clock) -> None:
    register(db, "one")
    with pytest.raises(errors.ServiceInUse, match="it is up; stop it first"):
        db.services.delete("one")
    node = free_node(db, "one")
    clock.advance(61)
    with pytest.raises(errors.ServiceInUse, match="1 compute nodes"):
        db.services.delete("one")
    made = create_building(db, new_instance(), node)
    with pytest.raises(errors.ServiceInUse):
        db.services.delete("one")
    failed(db, made.uuid, TaskState.SPAWNING, Fault("no"), released=True)
    db.compute_nodes.delete("one", node.uuid)
    db.services.delete("one")
    assert db.services.list() == []
    with pytest.raises(errors.ServiceNotFound):
        db.services.delete("one")


@pytest.mark.parametrize("method", ["get", "delete", "update"])
def test_an_unknown_service_is_named(db: Database, method: str) -> None:
    with pytest.raises(errors.ServiceNotFound, match="'nowhere'"):
        getattr(db.services, method)("nowhere")
    with pytest.raises(errors.ServiceSuperseded):
        heartbeat(db, "nowhere", new_uuid())
