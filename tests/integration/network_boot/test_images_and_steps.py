# SPDX-License-Identifier: Apache-2.0

"""What Ironic takes an image for that its agent writes, and the deploy steps that it runs."""

import dataclasses
import json
import re

import pytest
import requests

from ironic_virt import exceptions, virt
from tests.compute_service import FLAVOR
from tests.integration.network_boot.boot_files import TURN_SECONDS
from tests.integration.network_boot.deployments import CHECKSUM, BootStage
from tests.integration.services import flavor

STEP = {
    "interface": "vendor",
    "step": "send_raw",
    "args": {"raw_bytes": "0x06 0x01"},
    "priority": 150,
}


@pytest.mark.parametrize("has_parts", [False, True], ids=["whole disk", "partition"])
@pytest.mark.parametrize("place", ["url", "glance", "glance, told"])
def test_ironic_takes_an_image_for_what_it_is(stage, has_parts, place) -> None:
    kind = "partition" if has_parts else "whole-disk"
    parts = {"kernel_id": stage.images.file("kernel"), "ramdisk_id": stage.images.file("ramdisk")}
    if place == "url":
        properties = parts if has_parts else {}
        image = virt.ImageMeta(stage.images.file("disk"), checksum=CHECKSUM, properties=properties)
    else:
        told = {"img_type": kind} if place == "glance, told" else (parts if has_parts else {})
        image = virt.ImageMeta(stage.images.in_glance("disk", **told))
    node = stage.boot_node("direct")
    instance = stage.service.instance_on(node)
    going_on = stage.spawning(instance, image)
    seen = stage.operator.request("GET", f"/nodes/{node}")
    stage.service.unwanted = "all is seen"
    with pytest.raises(exceptions.BuildAborted):
        going_on.result(TURN_SECONDS)
    assert seen["instance_info"]["image_type"] == kind
    assert seen["driver_internal_info"]["is_whole_disk_image"] is not has_parts
    stage.assert_nothing_is_left(node)


def test_a_url_without_a_checksum_is_refused_with_ironics_words(stage: BootStage) -> None:
    node = stage.boot_node("direct")
    with pytest.raises(exceptions.NodeValidationFailed, match='"image_checksum", or'):
        stage.spawn(stage.service.instance_on(node), virt.ImageMeta(stage.images.file("disk")))
    stage.assert_nothing_is_left(node)


def test_steps_of_the_flavor_run_in_deployments_and_rebuilds(stage: BootStage) -> None:
    bmc = {"ipmi_address": "192.0.2.1", "ipmi_username": "a", "ipmi_password": "b"}
    node = stage.boot_node("fake", "fake", vendor_interface="ipmitool", driver_info=bmc)
    instance = stage.service.instance_on(node, flavor(ironic__deploy_steps=json.dumps([STEP])))

    def steps_run() -> list[list[str]]:
        events = stage.operator.request("GET", f"/nodes/{node}/history?detail=true")["history"]
        return [
            re.findall(r"'step': '(\w+)'", one["event"])
            for one in events
            if "completed successfully" in one["event"]
        ]

    stage.service.spawn(instance)
    assert steps_run() == [["send_raw", "deploy"]]
    stage.service.rebuild(instance)
    assert steps_run() == [["send_raw", "deploy"]] * 2
    plain = dataclasses.replace(instance, flavor=FLAVOR)
    stage.service.rebuild(plain, request_id="req-2")
    assert sorted(steps_run()) == [["deploy"], *[["send_raw", "deploy"]] * 2]
    stage.service.destroy(instance)


@pytest.mark.parametrize("interface", ["direct", "ramdisk"])
def test_a_late_deployment_of_a_freed_node_is_refused(stage: BootStage, interface: str) -> None:
    node = stage.boot_node(interface)
    with pytest.raises(requests.HTTPError) as caught:
        stage.operator.request("PUT", f"/nodes/{node}/states/provision", {"target": "active"})
    assert caught.value.response.status_code == 400
    assert "Missing are: [" in caught.value.response.text
    assert stage.operator.node(node)["provision_state"] == "available"
