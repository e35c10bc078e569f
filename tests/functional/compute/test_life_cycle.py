# SPDX-License-Identifier: Apache-2.0

"""The whole life of an instance, whoever picks its node; the service dies in mid deployment."""

import dataclasses
from typing import Any

import pytest

from ironic_virt import virt
from ironic_virt.cmd.demo.journey import free_places
from ironic_virt.compute.api import Requests
from ironic_virt.compute.db import records
from ironic_virt.compute.verbs import BY_NAME
from ironic_virt.testing.fake_ironic import Durations
from tests.functional.compute.processes import FLAVOR, IMAGE, deployments, wait_for
from tests.functional.compute.stage import new_uuid

NODES = 3
PORT = "11111111-2222-4333-8444-555555555555"
OTHER = virt.ImageMeta("https://images.example.test/b.raw", checksum="cd" * 16)
LIFE: list[tuple[str, dict[str, Any], str]] = [
    ("reboot", {}, "active"),
    ("stop", {}, "stopped"),
    ("start", {}, "active"),
    ("hard_reboot", {}, "active"),
    ("attach_interface", {"vif": PORT}, "active"),
    ("trigger_crash_dump", {}, "active"),
    ("rescue", {"password": "correct horse"}, "rescued"),
    ("unrescue", {}, "active"),
    ("rebuild", {"image": OTHER}, "active"),
    ("detach_interface", {"vif": PORT}, "active"),
    ("delete", {}, "deleted"),
]


@pytest.fixture
def durations() -> Durations:
    """Quick."""
    return Durations(deploy=0.2, undeploy=0.1, clean=0.1, rescue=0.1, unrescue=0.1, power=0.1)


def test_every_verb_is_in_this_life() -> None:
    assert {verb for verb, _, _ in LIFE} | {"create"} == set(BY_NAME)


@pytest.mark.long
@pytest.mark.parametrize("node_selection", ["scheduler", "ironic"])
def test_an_instance_lives_whoever_picks_its_node(
    compute, db, database_conf, server, ironic_clock, node_selection
) -> None:
    fake = server.fake
    nodes = fake.add_nodes(NODES, resource_class="gold", ports=2)
    fake.settings = fake.bm.settings = dataclasses.replace(fake.settings, supports_nmi=True)
    service = compute(ironic={"node_selection": node_selection}).started()
    wait_for("the nodes", lambda: free_places(db) == NODES)
    asking = Requests(database_conf, db)

    # A power cut in the middle of the deployment.
    ironic_clock.stop()
    new = records.NewInstance(uuid=new_uuid(), flavor=FLAVOR, image=IMAGE)
    (created,) = asking.create(new)
    wait_for("the deployment", lambda: deployments(server))
    service.kill()
    service.started()
    ironic_clock.go_on()
    (outcome,) = asking.wait([created], timeout=120)
    assert (outcome.error, outcome.instance.vm_state) == (None, "active")
    node = outcome.instance.node
    assert node in nodes
    assert fake.node(node)["instance_uuid"] == new.uuid
    assert deployments(server) == [node], "it was deployed once"
    assert len(fake.allocations()) == (node_selection == "ironic")
    assert free_places(db) <= NODES - 1

    for verb, arguments, becomes in LIFE:
        request = asking.ask(verb, new.uuid, **arguments)
        (outcome,) = asking.wait([request], timeout=120)
        assert (verb, outcome.error, outcome.instance.vm_state) == (verb, None, becomes)
    assert deployments(server, "rebuild") == [node]

    wait_for("all places to be free", lambda: free_places(db) == NODES)
    assert fake.allocations() == []
    assert not [one for one in fake.nodes() if one["instance_uuid"] or one["instance_info"]]
    assert not [one for one in nodes if fake.vifs(one)]
    assert "Traceback" not in service.text()
