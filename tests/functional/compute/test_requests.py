# SPDX-License-Identifier: Apache-2.0

"""Asking for instances and waiting for them, with no service but the test itself."""

import concurrent.futures
import contextlib
import dataclasses
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_virt import virt
from ironic_virt.compute import errors
from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import Database, records, tables
from ironic_virt.compute.db.candidates import Candidates
from ironic_virt.compute.networks import Network
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.exceptions import InvalidExtraSpec, NoValidHost
from ironic_virt.scheduler.filter_scheduler import FilterScheduler
from tests.functional.compute.stage import (
    claim,
    deleted,
    ended,
    failed,
    free_node,
    new_instance,
    new_uuid,
    offer,
    register,
    report,
)

FAULT = records.Fault("Ironic could not write the image")
WANTED = dataclasses.replace(new_instance(), ports=(), request_id=None)


def wanted(**values: object) -> records.NewInstance:
    return dataclasses.replace(WANTED, **{"uuid": new_uuid(), **values})  # type: ignore[arg-type]


@pytest.fixture
def nodes(db: Database) -> Sequence[str]:
    register(db, "one")
    return [free_node(db, "one").uuid for _ in range(3)]


class Pauses:
    """The pauses of who waits: in each of them, the next thing happens."""

    def __init__(self) -> None:
        self.happenings: list[Callable[[], object]] = []
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.happenings.pop(0)()


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


@pytest.fixture
def asking(database_conf, db, nodes, pauses) -> Requests:
    return Requests(database_conf, db, clock=pauses.clock, sleep=pauses.sleep)


@pytest.fixture
def request_(asking: Requests) -> records.Instance:
    """A server ``web`` that is wanted."""
    (request,) = asking.create(wanted(display_name="web"))
    return request


def claimed(db: Database) -> set[str]:
    return {node.uuid for node in db.compute_nodes.list() if node.instance_uuid is not None}


def finish(db: Database, request: records.Instance, **values: object) -> None:
    task = TaskState(request.task_state or "")
    values = {"vm_state": VmState.ACTIVE, **values}
    assert ended(db, request.uuid, task, **values)  # type: ignore[arg-type]


# -- creating -----------------------------------------------------------------


def test_rather_none_than_too_few(asking: Requests, db: Database, nodes: list[str]) -> None:
    with pytest.raises(NoValidHost, match="a node was found for 3 of 4 servers"):
        asking.create(wanted(), 4)
    assert db.instances.list() == []
    assert claimed(db) == set()


def test_two_requests_for_too_many_do_not_get_a_part_each(database_conf, db) -> None:
    register(db, "one")
    db.compute_nodes.save("one", [report() for _ in range(30)])
    start = threading.Barrier(2)

    def client(seed: int) -> int:
        mine = Database(database_conf, clock=db.now).open()
        scheduler = FilterScheduler.from_conf(database_conf, random.Random(seed))

        class Together(Candidates):
            """What both see before either has claimed anything."""

            def offer(self, *args: Any, **which: Any) -> Any:
                offer = super().offer(*args, **which)
                with contextlib.suppress(threading.BrokenBarrierError):
                    start.wait(5)
                return offer

        mine.candidates = Together(mine)
        try:
            asking = Requests(database_conf, mine, scheduler=scheduler)
            return len(asking.create(wanted(), 20))
        except NoValidHost as nowhere:
            return -nowhere.found
        finally:
            start.abort()
            mine.close()

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(client, range(2))) == [-10, 20]
    assert len(db.instances.list()) == len(claimed(db)) == 20


def test_places_of_a_pool_are_given_to_all_or_none(database_conf, db) -> None:
    register(db, "one")
    sizes = {"memory_mb": 16384, "vcpus": 8, "local_gb": 100}
    offer(db, "one", records.NodePool("gold~one", "one", "gold", 3, **sizes))
    asking = Requests(database_conf, db)
    with pytest.raises(NoValidHost):
        asking.create(wanted(), 4)
    asked = asking.create(wanted(), 3)
    assert [one.pool for one in asked] == ["gold~one"] * 3
    (pool,) = db.pools.list()
    assert (pool.used, pool.free) == (3, 0)


def test_a_node_that_was_taken_meanwhile_costs_another_try(asking, db, nodes, monkeypatch) -> None:
    look = db.candidates.offer

    def old_news(*args: Any, **which: Any) -> Any:
        offer = look(*args, **which)
        while others:
            assert claim(db, others.pop(), "one", new_uuid())
        return offer

    others = list(nodes[:2])
    monkeypatch.setattr(db.candidates, "offer", old_news)
    (request,) = asking.create(wanted())
    assert request.node == nodes[2]
    for count in (1, 2):
        with pytest.raises(NoValidHost, match="none of 3 nodes is free"):
            asking.create(wanted(), count)
    assert len(db.instances.list()) == 1


@pytest.mark.parametrize(
    ("values", "count", "complaint"),
    [
        ({}, 0, "0 servers can't be created"),
        ({"display_name": "x" * 254}, 10, "the name is too long"),
        ({"ports": (virt.Vif("a" * 256),)}, 1, "a port's id has 1 to 255 characters"),
        ({"user_data": "x" * 65537}, 1, "the user data has 65537 characters"),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_written(asking, db, values, count, complaint):
    with pytest.raises(errors.InvalidRequest, match=complaint):
        asking.create(wanted(**values), count)
    assert db.instances.list() == []
    assert claimed(db) == set()


@pytest.mark.parametrize("spec", ["resources:X", "ironic:deploy_steps"])
def test_a_flavor_of_unknown_form_is_refused_and_nothing_written(asking, db, spec) -> None:
    with pytest.raises(InvalidExtraSpec):
        asking.create(wanted(flavor=virt.Flavor("bad", extra_specs={spec: "many"})))
    assert db.instances.list() == []


def test_a_gateway_may_have_a_link_local_address(asking) -> None:
    assert asking.create(wanted(networks=(Network("2001:db8::9/64", "fe80::1"),)))


# -- waiting ------------------------------------------------------------------


def test_whoever_waits_is_told_each_step_and_the_end(asking, pauses, db, request_) -> None:
    uuid = request_.uuid
    pauses.happenings = [
        lambda: db.instances.progress_of_all({uuid: ("deploying", "wait call-back")}),
        lambda: None,
        lambda: finish(db, request_),
    ]
    steps: list[str | None] = []
    (outcome,) = asking.wait([request_], lambda instance: steps.append(instance.progress_step))
    assert (outcome.error, outcome.instance.vm_state) == (None, "active")
    assert steps == [None, "deploying", None]


def test_a_build_that_fails_says_why(asking: Requests, pauses: Pauses, db: Database) -> None:
    asked = first, second = asking.create(wanted(), 2)
    pauses.happenings = [
        lambda: failed(db, first.uuid, TaskState.SPAWNING, FAULT),
        lambda: finish(db, second),
    ]
    ended: list[str] = []
    outcomes = asking.wait(asked, ended=lambda outcome: ended.append(outcome.instance.uuid))
    assert [outcome.error for outcome in outcomes] == [FAULT.message, None]
    assert ended == [first.uuid, second.uuid]


def test_a_build_on_another_node_is_still_going_on(asking, pauses, db, nodes, request_) -> None:
    other = next(node for node in nodes if node != request_.node)
    pauses.happenings = [
        lambda: db.instances.reschedule(request_, db.compute_nodes.get(other), FAULT),
        lambda: finish(db, request_),
    ]
    seen: list[str | None] = []
    (outcome,) = asking.wait([request_], lambda instance: seen.append(instance.node))
    assert outcome.error is None
    assert seen[-1] == outcome.instance.node == other


def test_a_verb_of_several_tasks_goes_on_until_its_end(asking, pauses, db, request_) -> None:
    def next_task() -> None:
        change = sa.update(tables.instances).values(task_state="powering-on")
        db.write(lambda connection: connection.execute(change))

    pauses.happenings = [
        next_task,
        lambda: failed(db, request_.uuid, TaskState.POWERING_ON, FAULT),
    ]
    (outcome,) = asking.wait([request_])
    assert outcome.error == FAULT.message


def test_what_others_ask_for_later_is_not_taken_for_ones_own(asking, pauses, db, request_) -> None:
    finish(db, request_)
    first = asking.ask("reboot", "web")

    def done_and_asked_for_again_in_vain() -> None:
        finish(db, first)
        asking.ask("hard_reboot", "web")
        failed(db, request_.uuid, TaskState.REBOOTING_HARD, FAULT)

    pauses.happenings = [done_and_asked_for_again_in_vain]
    (outcome,) = asking.wait([first])
    assert outcome.error is None


def test_two_deletes_both_see_the_end_and_supersede_a_build(asking, pauses, db, request_) -> None:
    uuid = request_.uuid
    deletes: list[records.Instance] = []
    pauses.happenings = [lambda: deletes.append(asking.ask("delete", "web"))]
    (outcome,) = asking.wait([request_])
    assert outcome.error == "superseded by a delete"
    deletes.append(asking.ask("delete", "web"))
    pauses.happenings = [lambda: failed(db, uuid, TaskState.DELETING, FAULT)]
    assert [one.error for one in asking.wait(deletes)] == [FAULT.message] * 2
    deletes = [asking.ask("delete", "web"), asking.ask("delete", "web")]
    pauses.happenings = [lambda: deleted(db, uuid)]
    outcomes = asking.wait(deletes)
    assert [(one.instance.vm_state, one.error) for one in outcomes] == [("deleted", None)] * 2


def test_what_is_too_late_is_named_and_still_holds(asking, pauses, db) -> None:
    first, second = asking.create(wanted(), 2)
    pauses.happenings = [lambda: finish(db, first), lambda: None, lambda: None]
    with pytest.raises(errors.RequestTimeout) as late:
        asking.wait([first, second], timeout=0.3)
    assert late.value.servers == second.uuid
    assert pauses.now == pytest.approx(0.3)
    assert db.instances.get(second.uuid).task_state == "spawning"


def test_a_service_that_is_down_is_known(asking: Requests, db: Database) -> None:
    asked = asking.create(wanted(), 2)
    assert asking.down(asked) == []
    db.services.update("one", forced_down=True)
    assert asking.down(asked) == ["one"]
    db.instances.request(asked[0].uuid, TaskState.DELETING)
    assert asking.down([]) == []


def test_a_port_of_another_instance_is_refused(asking: Requests, db: Database) -> None:
    port = (virt.Vif("a"),)
    (first,) = asking.create(wanted(ports=port))
    with pytest.raises(errors.InvalidRequest, match=f"{first.uuid} has the port a"):
        asking.create(wanted(ports=port))
    assert [one.uuid for one in db.instances.list()] == [first.uuid]
    assert len(claimed(db)) == 1
    # Also if there is no node: it is not to be waited for.
    db.services.update("one", forced_down=True)
    with pytest.raises(errors.InvalidRequest, match="has the port a"):
        asking.create(wanted(ports=port))
