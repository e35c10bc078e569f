# SPDX-License-Identifier: Apache-2.0

"""Server groups by failure domain: what they allow, and that no race gets around it."""

from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.groups import find_places, rank_domains, why_refused
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import INSTANCE, SetStage, Stage, meanwhile
from tests.unit.driver.test_reservation import POOL, instance

GROUP = "99999999-0000-4000-8000-000000000001"
OTHER = "99999999-0000-4000-8000-000000000002"
ANTI = virt.ServerGroup(GROUP, "web", "anti-affinity")
PACK = virt.ServerGroup(GROUP, "web", "affinity")


def of(policy: str, **fields: Any) -> virt.ServerGroup:
    return virt.ServerGroup(GROUP, "web", policy, **fields)


@pytest.mark.parametrize(
    ("group", "domain", "members", "reason"),
    [
        (ANTI, "r1", {}, None),
        (ANTI, "r1", {"r2": 3}, None),
        (ANTI, "r1", {"r1": 1}, "failure domain r1 has 1 of its members already"),
        (of("anti-affinity", most=2), "r1", {"r1": 1}, None),
        (of("anti-affinity", most=2), "r1", {"r1": 2}, "failure domain r1 has 2"),
        (ANTI, "", {}, "the node has no failure domain"),
        (PACK, "r1", {"r1": 5}, None),
        (PACK, "r1", {"r2": 1}, "its members are in failure domain r2, the node is in r1"),
        (PACK, "", {}, "the node has no failure domain"),
        (of("soft-anti-affinity"), "r1", {"r1": 9}, None),
        (of("soft-affinity"), "", {"r1": 9}, None),
    ],
)
def test_what_a_group_refuses(group, domain, members, reason) -> None:
    refused = why_refused(group, domain, members)
    assert (refused is None) == (reason is None)
    assert (refused or "").startswith(reason or "")


@pytest.mark.parametrize(
    ("group", "members", "free", "order"),
    [
        (ANTI, {"a": 1}, {"a": 2, "b": 1, "c": 1}, ["bc"]),
        (of("soft-anti-affinity"), {"a": 1}, {"a": 2, "b": 1, "": 1}, ["b", "a", ""]),
        (PACK, {}, {"a": 2, "b": 1}, ["b", "a"]),
        (of("affinity", building=1), {}, {"a": 3, "b": 2, "c": 1}, ["b", "a", "c"]),
        (PACK, {"a": 1}, {"a": 2, "b": 1}, ["a"]),
        (of("soft-affinity"), {"a": 1}, {"a": 2, "b": 1}, ["a", "b"]),
        (ANTI, {"a": 1}, {"a": 2}, []),
    ],
)
def test_which_domains_suit_best(group, members, free, order) -> None:
    assert rank_domains(group, members, free) == [frozenset(level or [""]) for level in order]


@pytest.mark.parametrize(
    ("group", "members", "free", "allowed"),
    [
        (of("anti-affinity", building=1), {"a": 1}, {"a": 2, "b": 1, "c": 1}, "bc"),
        (of("anti-affinity", building=2), {"a": 1}, {"a": 2, "b": 1, "c": 1}, ""),
        (of("anti-affinity", building=2, most=2), {"a": 1}, {"a": 2, "b": 3}, "ab"),
        (of("affinity", building=1), {}, {"a": 2, "b": 1, "": 9}, "a"),
        (of("affinity", building=1), {"b": 1}, {"a": 2, "b": 1}, ""),
    ],
)
def test_all_of_a_request_have_a_place_or_none(group, members, free, allowed) -> None:
    assert find_places(group, members, free) == frozenset(allowed)


# -- the driver ---------------------------------------------------------------


class Records:
    """What a service says of our instance's group."""

    def __init__(self, stage: Stage, policy: str, **domains: str | None) -> None:
        service, self.policy, self.domains = stage.service, policy, domains
        self.noted: list[str | None] = []
        self.wanted: set[str] | None = None
        service.group_of = lambda vm: {INSTANCE: of(self.policy, domains=self.domains)}[vm.uuid]
        service.domains_of = lambda vm: {INSTANCE: self.wanted}[vm.uuid]
        service.note_domain = lambda vm, domain: self.noted.append(domain)


def rack(fake: FakeIronic, name: str, **fields: Any) -> str:
    properties = {"capabilities": f"rack:{name}"}
    return str(fake.add_node(ports=1, resource_class="gold", properties=properties, **fields))


def carrier(fake: FakeIronic) -> str | None:
    return next((one["uuid"] for one in fake.nodes() if one["instance_uuid"] == INSTANCE), None)


@pytest.mark.parametrize("domain", ["r1", None], ids=["known", "of a member from before"])
def test_a_node_in_a_domain_that_is_full_is_refused(fake, set_stage, domain) -> None:
    stage = set_stage(fake, failure_domain="capabilities/rack")
    rack(fake, "r1", instance_uuid=OTHER, provision_state="active")
    node = rack(fake, "r1")
    records = Records(stage, "anti-affinity", **{OTHER: domain})
    says = r"server group web \(anti-affinity\).*r1 has 1 of its members"
    with pytest.raises(exceptions.NodeNotAvailable, match=says):
        stage.reserve(stage.instance(node))
    assert carrier(fake) is None
    assert records.noted == ["r1", None]


@pytest.mark.parametrize("selection", ["scheduler", "ironic"])
def test_a_node_that_was_not_given_up_is_looked_at_again(fake, set_stage, selection) -> None:
    stage = set_stage(fake, node_selection=selection, failure_domain="capabilities/rack")
    *_, node = (rack(fake, name) for name in ("r1", "r1", "r1", "r2"))
    server = stage.instance(node) if selection == "scheduler" else instance(stage)
    records = Records(stage, "anti-affinity", other="r1")
    stage.reserve(server)
    assert (carrier(fake), records.noted) == (node, ["r2"]), "in pools, the driver picks it"
    # That build fails early, and Ironic is away when the node is to be given up.
    records.domains["later"] = "r2"
    with pytest.raises(exceptions.NodeNotAvailable, match="r2 has 1 of its members"):
        stage.reserve(server)
    fake.settle()
    assert (carrier(fake), fake.allocations()) == (None, [])
    assert records.noted == ["r2", "r2", None]


def test_in_pools_another_service_may_be_as_quick(fake: FakeIronic, set_stage: SetStage) -> None:
    stage = set_stage(fake, node_selection="ironic", failure_domain="capabilities/rack")
    rack(fake, "r1")
    rack(fake, "r2")
    records = Records(stage, "anti-affinity")

    def note(instance: virt.InstanceLike, domain: str | None) -> None:
        if not records.noted and domain:
            records.domains = {"other": domain}
        records.noted.append(domain)

    stage.service.note_domain = note  # type: ignore[method-assign]
    stage.reserve(instance(stage))
    first, none, second = records.noted
    assert (none, {first, second}) == (None, {"r1", "r2"})
    assert stage.pauses[1] <= 0.5, "the other one makes a pause, too"
    assert fake.node(carrier(fake))["properties"]["capabilities"] == f"rack:{second}"


def test_in_pools_a_node_that_broke_is_not_written_down(fake, set_stage) -> None:
    stage = set_stage(fake, node_selection="ironic", failure_domain="capabilities/rack")
    node = rack(fake, "r1")
    records = Records(stage, "anti-affinity")
    breaks = meanwhile(lambda: carrier(fake) and fake.set_node(node, maintenance=True))
    fake.faults.status(500, "GET", f"/nodes/{node}", count=None, when=breaks)
    with pytest.raises(exceptions.ReservationFailed):
        stage.reserve(instance(stage))
    assert (records.noted, len(stage.pauses)) == ([], 1)


@pytest.mark.parametrize("selection", ["scheduler", "ironic"])
def test_a_look_that_fails_gives_the_node_up(fake, set_stage, selection) -> None:
    stage = set_stage(fake, node_selection=selection, failure_domain="capabilities/rack")
    node = rack(fake, "r1")
    Records(stage, "anti-affinity")

    def fail(instance: virt.InstanceLike, domain: str | None) -> None:
        raise RuntimeError("the records are away")

    stage.service.note_domain = fail  # type: ignore[method-assign]
    server = stage.instance(node) if selection == "scheduler" else instance(stage)
    with pytest.raises(RuntimeError):
        stage.reserve(server)
    fake.settle()
    assert carrier(fake) is None
    assert fake.allocations() == []


@pytest.mark.parametrize("wanted", [None, {"r3"}])
def test_in_pools_the_error_names_the_group_first(fake, set_stage, wanted) -> None:
    stage = set_stage(fake, node_selection="ironic", failure_domain="capabilities/rack")
    rack(fake, "r1")
    Records(stage, "anti-affinity", other="r1").wanted = wanted
    with pytest.raises(exceptions.ReservationFailed) as caught:
        stage.reserve(instance(stage))
    begins = "failure domain r3, server group" if wanted else "server group"
    assert caught.value.reason.startswith(f"{begins} web (anti-affinity) with members in")
    assert fake.requests.matching("POST", "/allocations$") == []


def test_in_pools_an_earlier_request_may_get_another_domain(set_stage: SetStage) -> None:
    fake = FakeIronic(durations=Durations(allocate=20))
    stage = set_stage(fake, node_selection="ironic", failure_domain="capabilities/rack")
    rack(fake, "r1")
    records = Records(stage, "anti-affinity")
    stage.stopping = True
    with pytest.raises(exceptions.WaitCancelled):
        stage.reserve(instance(stage))
    stage.stopping = False
    rack(fake, "r2")
    stage.refresh()
    records.domains = {"other": "r1"}
    stage.reserve(instance(stage))
    fake.settle()
    assert fake.node(carrier(fake))["properties"]["capabilities"] == "rack:r2"
    assert len(fake.allocations()) == 1


def test_a_pool_says_what_is_free_in_each_domain(fake, set_stage) -> None:
    nodes = [rack(fake, name) for name in ("r1", "r1", "r2")]
    nodes.append(fake.add_node(ports=1, resource_class="gold"))

    def domains(selection: str, *names: str) -> list[dict[str, int]]:
        options = {"node_selection": selection, "failure_domain": "capabilities/rack"}
        driver = set_stage(fake, **options).driver
        driver.get_available_nodes(refresh=True)
        return [driver.get_available_resource(name).failure_domains for name in names]

    assert domains("ironic", POOL) == [{"r1": 2, "r2": 1}]
    assert domains("scheduler", *nodes) == [{"r1": 1}, {"r1": 1}, {"r2": 1}, {"": 1}]
