# SPDX-License-Identifier: Apache-2.0

"""What a flavor, an image and options ask of a deployment, on a real Ironic."""

import dataclasses
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.deploy import config_drive, iso_image
from tests import iso_images
from tests.compute_service import IMAGE
from tests.integration.services import Operator, Service, flavor, write_conf
from tests.integration.stage import Stage
from tools import real_ironic

LEFT_OUT = {"interface": "deploy", "step": "deploy", "args": {}, "priority": 0}
TRAIT = "CUSTOM_RAID10"


def spawn(service: Service, instance: virt.Instance, image: virt.ImageMeta = IMAGE) -> None:
    service.driver.prepare_for_spawn(instance)
    service.driver.spawn(virt.DeployRequest(instance, image))


def test_a_deploy_template_is_run_for_a_trait_of_the_flavor(stage: Stage) -> None:
    node = stage.node(traits=(TRAIT,))
    template = stage.operator.request(
        "POST", "/deploy_templates", {"name": TRAIT, "steps": [LEFT_OUT]}
    )
    try:
        plain = stage.service.instance_on(node)
        spawn(stage.service, plain)
        assert "traits" not in stage.operator.node(node)["instance_info"]
        stage.service.destroy(plain)
        stage.operator.wait_for_state(node, "available")
        instance = stage.service.instance_on(node, flavor(**{f"trait__{TRAIT}": "required"}))
        with pytest.raises(exceptions.DeployFailed, match="No deploy steps returned"):
            spawn(stage.service, instance)
    finally:
        stage.operator.request("DELETE", f"/deploy_templates/{template['uuid']}")


def test_a_name_that_ironics_database_refuses_blames_no_node(stage: Stage) -> None:
    """It copies the name into its own column: 255 characters of utf8mb3."""
    node = stage.node()
    instance = stage.service.instance_on(node)
    named = dataclasses.replace(instance, display_name="w\U0001f600b\ud83d" + "x" * 300)
    spawn(stage.service, named)
    assert stage.operator.node(node)["instance_name"] == "w?b?" + "x" * 251
    stage.service.destroy(named)
    wrong = [{"op": "add", "path": "/instance_name", "value": "\U0001f600"}]
    with pytest.raises(exceptions.IronicError, match="Incorrect string value") as caught:
        stage.service.driver._site.client.patch_node(stage.node(), wrong)
    assert "UPDATE" not in str(caught.value)
    assert "parameters" not in str(caught.value)


def test_an_image_is_taken_and_a_smaller_ironic_is_quoted(ironic_environment, tmp_path) -> None:
    sizes = {"max_json_body_size": "64", "max_json_body_size_provision": "64"}
    options = real_ironic.Options(overrides={"api": sizes})
    with real_ironic.RealIronic(options, environment=ironic_environment) as ironic:
        [node] = real_ironic.create_nodes(ironic, 1)
        service = Service(write_conf(tmp_path, ironic, config_drive_form="iso"))
        instance = service.instance_on(node)
        spawn(service, instance)
        image = iso_images.unpacked(Operator(ironic).kept_by_ironic(node)["configdrive"])
        assert iso_images.label(image) == "config-2"
        files = iso_images.contents(image)
        told = json.loads(files["openstack/latest/meta_data.json"])
        assert told["uuid"] == instance.uuid
        assert files["openstack/latest/user_data"] == b"#!/bin/sh"

        rng = random.Random(1)
        drive = virt.ConfigDrive(user_data=rng.randbytes(64 * 1024).hex())
        service.config_drive = lambda *_, **__: drive  # type: ignore[method-assign]
        with pytest.raises(exceptions.RebuildFailed, match="too large") as caught:
            service.rebuild(instance)
        assert caught.value.disk is exceptions.Disk.UNTOUCHED
        service.destroy(instance)
        service.driver.cleanup_host()


@pytest.mark.skipif(shutil.which("genisoimage") is None, reason="Ironic makes images with it")
def test_an_image_made_here_is_as_ironic_makes_it(stage: Stage, tmp_path: Path) -> None:
    drive = virt.ConfigDrive(
        meta_data={"uuid": "a", "name": "web"},
        user_data="#!/bin/sh\n",
        network_data={"links": []},
        vendor_data={"v": 1},
    )
    script = (
        "import json, sys\n"
        "from openstack.baremetal import configdrive\n"
        "told = json.load(sys.stdin)\n"
        "user_data = told['user_data'].encode()\n"
        "print(configdrive.build(told['meta_data'], user_data=user_data,"
        " network_data=told['network_data'], vendor_data=told['vendor_data']))\n"
    )
    arguments = [stage.ironic.environment.python, "-c", script]
    told = json.dumps(config_drive.json_form(drive))
    theirs = subprocess.run(arguments, input=told, capture_output=True, text=True, check=True)
    ours = iso_image.make_image(config_drive.list_files(drive, "a"))
    assert _read(ours) == _read(iso_images.unpacked(theirs.stdout))


def _read(image: bytes) -> list[Any]:
    """What a system finds on an image, whichever names it reads."""
    names = (iso_images.contents(image, which) for which in ("rr_path", "joliet_path"))
    return [iso_images.label(image), *names, iso_images.modes(image)]
