# SPDX-License-Identifier: Apache-2.0

"""Hooks: when they are called, what they are given, and what comes of their mistakes."""

import dataclasses
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver import IronicDriver, hooks
from ironic_virt.exceptions import Disk
from ironic_virt.testing.fake_ironic import FakeIronic
from tests import entry_points, iso_images
from tests.config_drives import sent_drives
from tests.unit.driver.stage import (
    IMAGE,
    INSTANCE,
    OTHER_IMAGE,
    SECRET,
    STRANGER,
    VIF,
    SetStage,
    Stage,
    make_conf,
)

LINK = {
    "id": "storage0",
    "type": "phy",
    "ethernet_mac_address": "52:54:00:00:00:99",
    "mtu": 9000,
}
MIB = 1024**2

CALLS: list[tuple[str, str]] = []
"""Hook and method of each call."""
GIVEN: list[hooks.Deployment] = []
"""What each call was given."""
DOES: dict[tuple[str, str], Callable[..., Any]] = {}
"""What a hook does in a method."""


class Scripted(hooks.Hook):
    """Does what a test says."""

    def _do(self, method: str, *given: Any) -> Any:
        key = (type(self).__name__.lower(), method)
        CALLS.append(key)
        GIVEN.append(given[-1])
        return DOES[key](*given) if key in DOES else given[0]

    def before_deploy(self, deployment: hooks.Deployment) -> None:
        self._do("before_deploy", deployment)

    def network_data(self, data: Any, deployment: hooks.Deployment) -> Any:
        return self._do("network_data", data, deployment)

    def metadata(self, data: Any, deployment: hooks.Deployment) -> Any:
        return self._do("metadata", data, deployment)

    def after_deploy(self, deployment: hooks.Deployment) -> None:
        self._do("after_deploy", deployment)


class First(Scripted):
    pass


class Second(Scripted):
    pass


class Silent(hooks.Hook):
    """Overrides nothing."""


class Stranger:
    """Derives from nothing."""

    def __init__(self, conf: object) -> None:
        pass


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another project with these classes."""
    CALLS.clear()
    GIVEN.clear()
    DOES.clear()
    points = {
        name.lower(): f"{__name__}:{name}" for name in ("First", "Second", "Silent", "Stranger")
    }
    points["broken"] = "no_such_module_anywhere:Hook"
    entry_points.install(tmp_path / "hooks", monkeypatch, hooks.NAMESPACE, points)


@pytest.fixture
def hooked(fake: FakeIronic, set_stage: SetStage) -> Stage:
    """A stage with one hook."""
    return set_stage(fake, hooks="first")


def sent(fake: FakeIronic, number: int = -1) -> Any:
    """A config drive that was sent."""
    return sent_drives(fake)[number]


def refuse(*given: Any) -> Any:
    raise hooks.Refused("the rack is being moved")


def refuse_the_node(*given: Any) -> Any:
    raise hooks.Refused("it has no storage port", another_node=True)


def fail(*given: Any) -> Any:
    raise SystemExit("no such rack at https://racks.internal.test")


def add_link(data: dict[str, Any], deployment: hooks.Deployment) -> dict[str, Any]:
    data["links"].append(LINK)
    return data


# -- loading ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("frist", "frist is not installed; there are: broken, first, second, silent, stranger"),
        ("first,first", "a name stands there twice"),
        ("broken", "broken could not be loaded: .*no_such_module_anywhere"),
        ("stranger", r"stranger is no ironic_virt\.driver\.hooks\.Hook"),
    ],
)
def test_a_name_that_leads_to_no_hook_is_an_error_at_start(fake, set_stage, names, says) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match=rf"\[ironic\] hooks: {says}"):
        set_stage(fake, hooks=names)
    assert len(fake.requests) == 0


def test_hooks_installed_but_not_named_are_not_called(stage, fake, node, monkeypatch, tmp_path):
    def look(*args: Any) -> None:
        raise AssertionError("entry points were looked for")

    monkeypatch.setattr(hooks.plugins, "load", look)
    hooks.Hooks.from_conf(make_conf(tmp_path), None, None)  # type: ignore[arg-type]
    stage.spawn(stage.instance(node))
    assert CALLS == []


# -- when they are called -----------------------------------------------------


def test_they_are_called_in_the_order_of_the_option(set_stage, fake, node) -> None:
    methods = ("before_deploy", "network_data", "metadata", "after_deploy")
    states: dict[str, Any] = {}

    def look(*given: Any) -> Any:
        method = CALLS[-1][1]
        there = fake.node(node)
        states[method] = (there["provision_state"], there["instance_uuid"], fake.vifs(node))
        return given[0]

    for method in methods:
        DOES["second", method] = look
    stage = set_stage(fake, hooks="second,silent,first")
    stage.spawn(stage.instance(node))
    expected = [(name, method) for method in methods for name in ("second", "first")]
    assert expected == CALLS
    assert states == {
        "before_deploy": ("available", INSTANCE, []),
        "network_data": ("available", INSTANCE, [VIF]),
        "metadata": ("available", INSTANCE, [VIF]),
        "after_deploy": ("active", INSTANCE, [VIF]),
    }
    assert stage.service.steps[-1] == "active"


def spawn_again(driver: IronicDriver, instance: virt.Instance) -> None:
    driver.spawn(virt.DeployRequest(instance, IMAGE))


def finish(driver: IronicDriver, instance: virt.Instance) -> None:
    driver.finish_spawn(instance)


@pytest.mark.parametrize("take_up", [spawn_again, finish])
def test_a_process_that_takes_a_deployment_up_ends_it(hooked, fake, node, take_up) -> None:
    DOES["first", "after_deploy"] = fail
    instance = hooked.instance(node)
    info = {"display_name": "web"}
    fake.set_node(node, instance_uuid=INSTANCE, provision_state="active", instance_info=info)
    with pytest.raises(exceptions.HookFailed):
        take_up(hooked.restarted().driver, instance)
    assert CALLS == [("first", "after_deploy")]
    assert (GIVEN[0].instance.uuid, GIVEN[0].node.uuid) == (INSTANCE, node)


# -- what they are given ------------------------------------------------------


def test_a_hook_knows_instance_and_node(hooked, fake, monkeypatch) -> None:
    node = fake.add_node(ports=2, name="r1-u7", resource_class="gold", shard="one")
    fake.set_node(node, extra={"rack": {"unit": 7}}, properties={"capabilities": "rack:r1"})
    fake.set_node(node, traits=["CUSTOM_GOLD"])
    told = {"storage": "wanted"}
    monkeypatch.setattr(hooked.service, "instance_metadata", lambda instance: told)
    flavor = virt.Flavor("bm", extra_specs={"hooks:storage": "yes"})
    instance = dataclasses.replace(hooked.instance(node), project_id="p", flavor=flavor)
    hooked.spawn(instance)
    deployment = GIVEN[0]
    # One for the whole deployment.
    assert all(one is deployment for one in GIVEN)
    assert deployment.instance == instance
    assert deployment.metadata == told
    there = deployment.node
    assert (there.uuid, there.name, there.resource_class) == (node, "r1-u7", "gold")
    assert (there.shard, there.traits) == ("one", {"CUSTOM_GOLD"})
    assert there.capabilities == {"rack": "r1"}
    assert there.extra == {"rack": {"unit": 7}}
    assert not deployment.is_rebuild
    for frozen in (deployment.metadata, there.extra, deployment.instance.flavor.extra_specs):
        with pytest.raises(TypeError):
            frozen["mine"] = 1  # type: ignore[index]


def test_without_a_config_drive_none_is_changed(hooked, fake, node) -> None:
    hooked.service.has_drive = False
    hooked.spawn(hooked.instance(node))
    assert CALLS == [("first", "before_deploy"), ("first", "after_deploy")]
    assert fake.requests.matching("GET", "/ports") == []
    (port,) = GIVEN[0].ports()
    assert GIVEN[0].ports() == (port,)
    assert GIVEN[0].portgroups() == ()
    assert port.address
    assert len(fake.requests.matching("GET", "/v1/ports")) == 1


def test_ironic_s_own_error_stays_what_it_is(hooked: Stage, fake: FakeIronic, node: str) -> None:
    untouched = hooked.trace(node)
    DOES["first", "before_deploy"] = lambda deployment: deployment.ports()
    fake.faults.status(403, "GET", "/v1/ports")
    with pytest.raises(exceptions.IronicUnauthorized) as caught:
        hooked.spawn(hooked.instance(node))
    assert caught.value.__notes__ == ["Hook 'first' had asked for it"]
    assert hooked.trace(node) == untouched


# -- the config drive ---------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "iso"])
def test_documents_are_as_the_hooks_want_them(set_stage, fake, node, form) -> None:
    def rename(data: dict[str, Any], deployment: hooks.Deployment) -> dict[str, Any]:
        return {**data, "rack": "r1", "meta": {"seen": [*data]}}

    stage = set_stage(fake, hooks="first,second", config_drive_form=form)
    DOES["first", "network_data"] = add_link
    DOES["second", "network_data"] = add_link
    DOES["second", "metadata"] = rename
    stage.spawn(stage.instance(node))
    fake.advance(60)
    stage.rebuild(stage.instance(node))
    for number in (0, 1):
        drive = sent(fake, number)
        if form == "iso":
            found = iso_images.contents(iso_images.unpacked(drive))
            drive = {
                name: json.loads(found[f"openstack/latest/{name}.json"])
                for name in ("meta_data", "network_data")
            }
        first, *added = drive["network_data"]["links"]
        assert first["vif_id"] == VIF
        assert added == [LINK, LINK]
        # No hook sees the password, and it is there all the same.
        told = {"uuid": INSTANCE, "admin_pass": SECRET, "rack": "r1", "meta": {"seen": ["uuid"]}}
        assert drive["meta_data"] == told
    assert SECRET not in repr(GIVEN)
    assert [one.is_rebuild for one in GIVEN] == [False] * 8 + [True] * 8
    assert CALLS[8:] == CALLS[:8]


def test_an_instance_without_networks_can_be_given_one(hooked, fake, node) -> None:
    DOES["first", "network_data"] = add_link
    hooked.spawn(hooked.instance(node), vifs=())
    assert sent(fake)["network_data"] == {"links": [LINK], "networks": [], "services": []}


def test_a_hook_gets_what_the_one_before_it_returned(set_stage, fake, node) -> None:
    returned = {"links": [LINK]}
    seen: list[Any] = []

    def look(data: dict[str, Any], deployment: hooks.Deployment) -> dict[str, Any]:
        seen.append(data)
        return {**data, "seen": True}

    def forget(data: dict[str, Any], deployment: hooks.Deployment) -> dict[str, Any]:
        returned["links"].clear()
        return data

    stage = set_stage(fake, hooks="first,second")
    DOES["first", "network_data"] = lambda data, deployment: returned
    DOES["first", "metadata"] = forget
    DOES["second", "network_data"] = look
    stage.spawn(stage.instance(node))
    assert seen == [{"links": [LINK]}]
    assert sent(fake)["network_data"] == {"links": [LINK], "seen": True}


@pytest.mark.parametrize(
    ("method", "returned", "says"),
    [
        ("network_data", None, "NoneType, and not a dict"),
        ("metadata", [], "list, and not a dict"),
        ("metadata", {"since": datetime.date(2026, 1, 1)}, "date is not JSON serializable"),
        ("metadata", {"load": float("nan")}, "not JSON compliant"),
        ("metadata", {(1, 2): SECRET}, "keys must be str"),
        ("network_data", {"links": {"id": SECRET}}, "links is not a list of objects"),
        ("network_data", {"networks": [SECRET]}, "networks is not a list of objects"),
    ],
)
def test_what_no_config_drive_can_hold_is_an_error_and_not_sent(
    hooked, fake, node, method, returned, says, caplog
) -> None:
    DOES["first", method] = lambda data, deployment: returned
    failure = hooked.fail_to_spawn(node, exceptions.HookFailed, says)
    assert f"hook 'first' returned in {method}" in str(failure)
    assert hooked.provision_requests("active") == 0
    assert SECRET not in caplog.text + str(failure)


# -- mistakes -----------------------------------------------------------------


@pytest.mark.parametrize("method", ["before_deploy", "network_data", "metadata"])
@pytest.mark.parametrize(
    ("act", "says"),
    [
        (refuse, "hook 'first' refused the deployment: the rack is being moved"),
        (refuse_the_node, "hook 'first' refused the deployment: it has no storage port"),
        (fail, "hook 'first' failed in {} (SystemExit); the log says why"),
    ],
)
def test_a_hook_that_raises_fails_the_build(set_stage, fake, node, method, act, says, caplog):
    stage = set_stage(fake, hooks="first,second")
    DOES["first", method] = act
    error = stage.fail_to_spawn(node, exceptions.HookFailed)
    assert str(error) == f"Node {node}, server {INSTANCE}: {says.format(method)}"
    assert error.hook == "first"
    assert error.retriable is (act is refuse_the_node)
    assert CALLS[-1] == ("first", method), "no other is called after it"
    assert stage.provision_requests("active") == 0
    # Why something fails by mistake is for the operator to read.
    tracebacks = [one.getMessage() for one in caplog.records if one.exc_info]
    told = f"[hook-failed] Hook 'first' failed in {method} for instance {INSTANCE}, node {node}"
    assert tracebacks == ([told] if act is fail else [])


def test_a_hook_that_fails_at_the_end_has_the_node_torn_down(hooked, node) -> None:
    DOES["first", "after_deploy"] = refuse
    hooked.fail_to_spawn(node, exceptions.HookFailed, "the rack is being moved")
    assert hooked.provision_requests("deleted") == 1
    assert "active" not in hooked.service.steps


def test_an_instance_deleted_while_a_hook_works_is_not_deployed(hooked, node) -> None:
    def work(deployment: hooks.Deployment) -> None:
        hooked.service.unwanted = "the server is being deleted"

    DOES["first", "before_deploy"] = work
    hooked.fail_to_spawn(node, exceptions.BuildAborted)
    assert CALLS == [("first", "before_deploy")]


# -- rebuilds -----------------------------------------------------------------


@pytest.fixture
def rebuilt(hooked: Stage, fake: FakeIronic, node: str) -> virt.Instance:
    """An instance that is active, and about to be rebuilt."""
    instance = hooked.active(node)
    CALLS.clear()
    GIVEN.clear()
    return instance


@pytest.mark.parametrize("method", ["before_deploy", "network_data", "metadata"])
def test_a_rebuild_that_is_refused_leaves_the_instance_as_it_is(
    hooked, fake, node, rebuilt, method
) -> None:
    before = hooked.trace(node)
    DOES["first", method] = refuse
    with pytest.raises(exceptions.RebuildFailed, match="hook 'first' refused") as caught:
        hooked.rebuild(rebuilt)
    assert caught.value.disk is Disk.UNTOUCHED
    assert isinstance(caught.value.__cause__, exceptions.HookFailed)
    assert hooked.trace(node) == before
    assert {entry.method for entry in fake.requests} == {"GET"}


def test_a_rebuild_that_is_refused_at_its_end_has_the_new_image(hooked, fake, node, rebuilt):
    DOES["first", "after_deploy"] = fail
    with pytest.raises(exceptions.RebuildFailed, match="hook 'first' failed") as caught:
        hooked.rebuild(rebuilt)
    assert caught.value.disk is Disk.REWRITTEN
    there = fake.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", INSTANCE)
    assert there["instance_info"]["image_source"] == OTHER_IMAGE.id


@pytest.mark.parametrize("act", ["spawn", "rebuild"])
@pytest.mark.parametrize("has_drive", [False, True])
def test_a_node_that_is_lost_while_a_hook_works_is_left_alone(hooked, fake, node, act, has_drive):
    instance = hooked.active(node) if act == "rebuild" else hooked.instance(node)
    hooked.service.has_drive = has_drive

    def lose(deployment: hooks.Deployment) -> None:
        fake.set_node(node, instance_uuid=STRANGER)
        fake.requests.clear()

    DOES["first", "before_deploy"] = lose
    error = exceptions.NodeTaken if act == "spawn" else exceptions.RebuildFailed
    with pytest.raises(error):
        getattr(hooked, act)(instance)
    assert fake.requests.mutating() == []
    assert fake.node(node)["instance_uuid"] == STRANGER
