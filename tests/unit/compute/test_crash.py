# SPDX-License-Identifier: Apache-2.0

"""The process dies between any two calls; another one goes on, and all adds up."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ironic_virt.compute.states import TaskState
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.compute.crashing import Deaths, a_deployment_fails, settled
from tests.unit.compute.service_stage import ServiceStage, make_conf

PASSWORD = "correct horse"
VIF = "9d1c54a0-0000-4000-8000-000000000001"
POOL = "gold~compute1"
ARGUMENTS: dict[TaskState, dict[str, Any]] = {
    TaskState.RESCUING: {"password": PASSWORD},
    TaskState.ATTACHING_INTERFACE: {"vif": VIF},
    TaskState.DETACHING_INTERFACE: {"vif": VIF},
}


@dataclasses.dataclass(frozen=True)
class Case:
    """What the process dies in, and what has come of it in the end.

    :ivar tasks: the last one is died in; with none it is the build.
    :ivar once: what Ironic is asked for exactly once.
    :ivar power: of its node, while it has one.
    """

    tasks: tuple[TaskState, ...] = ()
    becomes: str = "active"
    once: str | None = None
    power: str = "power on"
    passwords: frozenset[str] = frozenset()
    ports: tuple[str, ...] = ()
    nmis: frozenset[int] = frozenset()


CASES = {
    "build": Case(once="active"),
    "rebuild": Case((TaskState.REBUILDING,), once="rebuild"),
    "delete": Case((TaskState.DELETING,), "deleted", once="deleted"),
    "power off": Case((TaskState.POWERING_OFF,), "stopped", power="power off"),
    "rescue": Case((TaskState.RESCUING,), "rescued", passwords=frozenset({PASSWORD})),
    "unrescue": Case((TaskState.RESCUING, TaskState.UNRESCUING), once="unrescue"),
    "attach": Case((TaskState.ATTACHING_INTERFACE,), ports=(VIF,)),
    "detach": Case((TaskState.ATTACHING_INTERFACE, TaskState.DETACHING_INTERFACE)),
    "crash dump": Case((TaskState.TRIGGERING_CRASH_DUMP,), nmis=frozenset({204})),
}


@pytest.fixture
def deaths(request: pytest.FixtureRequest, records: Path) -> Deaths:
    """Of a service that picks the nodes, or has Ironic pick them from a pool."""
    if getattr(request, "param", None) != "ironic":
        return Deaths(records, make_conf(records), arguments=ARGUMENTS)
    return Deaths(records, make_conf(records, ironic={"node_selection": "ironic"}), POOL)


def check_whole(stage: ServiceStage, uuid: str, where: str) -> None:
    """See that records and Ironic agree, and that nobody else has anything."""
    has = settled(stage, uuid, where)
    if stage.db.pools.list():
        check_pool(stage, uuid, has, where)
        return
    assert [node.uuid for node in stage.db.compute_nodes.list() if node.instance_uuid] == has, (
        where
    )
    stage.fake.advance(60)
    stage.nobody_has(set(stage.nodes) - set(has))
    stage.service.refresh()
    free = {node.uuid for node in stage.db.compute_nodes.list() if node.available}
    assert free == set(stage.nodes) - set(has), where


def check_pool(stage: ServiceStage, uuid: str, has: list[str], where: str) -> None:
    """See that its numbers are right, and that nothing is reserved for nobody."""
    allocated = {one["uuid"]: one["node_uuid"] for one in stage.fake.allocations()}
    assert allocated == dict(zip([uuid], has, strict=False)), where
    stage.fake.advance(120)
    stage.service.refresh()
    usable = sum(
        not node["maintenance"] and node["provision_state"] == "available"
        for node in stage.fake.nodes()
    )
    pool = stage.pool(POOL)
    assert (pool.used, pool.free) == (len(has), usable), where


BEGUN = {name: (case, "scheduler") for name, case in CASES.items()} | {
    f"{name} in a pool": (CASES[name], "ironic") for name in ("build", "delete")
}
each_selection = pytest.mark.parametrize("deaths", ["scheduler", "ironic"], indirect=True)


@pytest.mark.parametrize(("case", "deaths"), BEGUN.values(), ids=BEGUN, indirect=["deaths"])
def test_what_was_begun_is_done(deaths: Deaths, case: Case) -> None:
    for where, again, uuid in deaths(*case.tasks):
        found = again.instance(uuid)
        assert again.state(uuid) == (case.becomes, None), where
        assert found.fault is None, where
        if case.once:
            assert again.ironic.provision_requests(case.once) == 1, where
        if not found.is_deleted:
            assert (found.attempts, found.node is None) == (1, False), where
            assert again.fake.node(found.node)["power_state"] == case.power, where
            assert tuple(port.id for port in found.ports) == case.ports, where
            assert tuple(again.ironic.trace(found.node)["vifs"]) == case.ports, where
        asked = again.fake.requests.matching("PUT", "/states/provision$")
        passwords = {entry.body.get("rescue_password") for entry in asked} - {None}
        assert passwords == case.passwords, where
        nmis = [entry.status for entry in again.fake.requests.matching("PUT", "/inject_nmi$")]
        assert (set(nmis), len(nmis) <= 2) == (case.nmis, True), where
        check_whole(again, uuid, where)


@each_selection
def test_a_build_that_failed_goes_on_elsewhere(deaths: Deaths) -> None:
    for where, again, uuid in deaths(prepare=a_deployment_fails):
        assert again.state(uuid) == ("active", None), where
        check_whole(again, uuid, where)


def test_a_build_that_cannot_work_ends_in_error_with_the_reason(deaths: Deaths) -> None:
    def image_fails(fake: FakeIronic) -> None:
        fake.fail_next("deploy", "The supplied image checksum is wrong", count=9)

    for where, again, uuid in deaths(prepare=image_fails):
        assert again.state(uuid) == ("error", None), where
        assert "image checksum" in again.fault(uuid), where
        assert again.instance(uuid).attempts == 1, where
        check_whole(again, uuid, where)


@pytest.mark.parametrize("deaths", ["ironic"], indirect=True)
def test_a_build_without_a_node_ends_in_error_and_keeps_no_place(deaths: Deaths) -> None:
    def no_node_is_left(fake: FakeIronic) -> None:
        for node in fake.nodes():
            fake.set_node(node["uuid"], maintenance=True)

    for where, again, uuid in deaths(prepare=no_node_is_left):
        assert again.state(uuid) == ("error", None), where
        assert "there is no node that would do" in again.fault(uuid), where
        check_whole(again, uuid, where)
