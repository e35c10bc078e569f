# SPDX-License-Identifier: Apache-2.0

"""Deploy steps that a flavor asks for."""

import json
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.deploy import steps
from ironic_virt.testing.fake_ironic import FakeIronic
from tests.unit.driver.stage import Stage

STEP = {"interface": "bios", "step": "apply_configuration", "priority": 150, "args": {"a": [1]}}


def flavor(value: str) -> virt.Flavor:
    return virt.Flavor("bm", extra_specs={steps.EXTRA_SPEC: value})


def asking(stage: Stage, node: str, value: str) -> virt.Instance:
    return stage.instance(node, flavor=flavor(value))


def sent(fake: FakeIronic) -> list[Any]:
    """The steps in each request for a provision state."""
    asked = fake.requests.matching("PUT", "/states/provision$")
    return [request.body.get("deploy_steps") for request in asked]


def test_arguments_may_be_left_out_and_all_of_it() -> None:
    short = {"interface": "raid", "step": "delete", "priority": 0}
    assert steps.read_steps(flavor(json.dumps([STEP, short]))) == [STEP, {**short, "args": {}}]
    assert steps.read_steps(flavor("[]")) == steps.read_steps(virt.Flavor("bm")) == []


def test_a_long_list_is_in_several_parts() -> None:
    def part(step: str) -> str:
        return json.dumps([{**STEP, "step": step}])

    specs = {
        "ironic:deploy_steps10": part("last"),
        "ironic:deploy_steps2": part("third"),
        "ironic:deploy_steps": part("first"),
        "ironic:deploy_steps0": part("second"),
        "ironic:deploy_stepsX": "of no meaning",
    }
    found = steps.read_steps(virt.Flavor("bm", extra_specs=specs))
    assert [step["step"] for step in found] == ["first", "second", "third", "last"]
    specs["ironic:deploy_steps2"] = "[1]"
    with pytest.raises(exceptions.InvalidExtraSpec, match="value of ironic:deploy_steps2"):
        steps.read_steps(virt.Flavor("bm", extra_specs=specs))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("bios.apply", "a list in JSON"),
        ("[" * 100_000, "a list in JSON"),
        ('{"step": "x"}', "a list in JSON"),
        ("[3]", "number 1 no object"),
        (json.dumps([STEP, {**STEP, "order": 1}]), "number 2 there is no 'order'"),
        (json.dumps([{**STEP, "interface": "console"}]), "the interface must be one of bios"),
        (json.dumps([{**STEP, "interface": ["bios"]}]), "the interface must be one of bios"),
        (json.dumps([{**STEP, "step": ""}]), "the step must be a name"),
        (json.dumps([{**STEP, "args": []}]), "args must be an object"),
        (json.dumps([{**STEP, "priority": -1}]), "a whole number from 0"),
        (json.dumps([{**STEP, "priority": True}]), "a whole number from 0"),
        ('[{"interface": "bios", "step": "x"}]', "a whole number from 0"),
    ],
)
def test_what_ironic_would_not_take_is_refused_with_the_reason(value: str, says: str) -> None:
    with pytest.raises(exceptions.InvalidExtraSpec) as caught:
        steps.read_steps(flavor(value))
    assert says in str(caught.value)
    assert "flavor bm: the value of ironic:deploy_steps must be" in str(caught.value)
    assert value[:9] in str(caught.value)


def test_they_go_with_the_deployment_and_with_a_rebuild(stage, fake, node) -> None:
    instance = asking(stage, node, json.dumps([STEP]))
    stage.spawn(instance)
    stage.rebuild(instance)
    assert sent(fake) == [[STEP], [STEP]]


def test_what_can_never_be_done_touches_nothing(stage: Stage, fake: FakeIronic, node: str) -> None:
    instance = asking(stage, node, "[1]")
    for act in (stage.driver.prepare_for_spawn, stage.spawn):
        with pytest.raises(exceptions.InvalidExtraSpec, match="number 1"):
            act(instance)
    assert {entry.method for entry in fake.requests} <= {"GET"}


def test_a_rebuild_with_a_broken_flavor_touches_nothing(stage, fake, node) -> None:
    stage.spawn(stage.instance(node))
    before = stage.trace(node)
    with pytest.raises(exceptions.RebuildFailed, match="ironic:deploy_steps") as caught:
        stage.rebuild(asking(stage, node, "[1]"))
    assert caught.value.disk is exceptions.Disk.UNTOUCHED
    assert stage.trace(node) == before
