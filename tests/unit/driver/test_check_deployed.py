# SPDX-License-Identifier: Apache-2.0

"""What a look at a node says of the deployment on it."""

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.deploy import completion, instance_info

INSTANCE = virt.Instance("6d2b4f02-0000-4000-8000-000000000001", "instance", virt.Flavor("bm"))
UUID = "6d2b4f02-0000-4000-8000-00000000000a"


def test_of_a_state_that_no_table_has_it_may_become_active() -> None:
    there = Node(uuid=UUID, instance_uuid=INSTANCE.uuid, provision_state="brand new")
    assert completion.check_deployed(INSTANCE, there) is None


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("image href https://images.example.test/a.raw failed: 404", exceptions.ImageRefused),
        # The node's deploy ramdisk, and other nodes may have another one.
        ("image href https://ironic.example.test/ipa failed: 404", exceptions.DeployFailed),
        ("image checks are off, and the BMC does not answer", exceptions.DeployFailed),
    ],
)
def test_a_failure_is_the_images_if_ironic_names_it(said: str, kind: type[Exception]) -> None:
    said = f"Validation of {said}"
    told = {"image_source": "https://images.example.test/a.raw"}
    there = Node(uuid=UUID, instance_uuid=INSTANCE.uuid, instance_info=told)
    found = completion.make_failure(there, INSTANCE, "it failed", said, "req-1")
    assert type(found) is kind
    assert (found.node, found.instance) == (UUID, INSTANCE.uuid)
    assert (found.last_error, found.request_id) == (said, "req-1")


AGENT = "Agent returned error for command standby.prepare_image: {}"
NO_DRIVER = "qemu-img: Could not open '{}': Unknown driver 'gpt'"


@pytest.mark.parametrize(
    ("said", "is_image"),
    [
        ("Error verifying image checksum: Image failed to verify against checksum. l", True),
        ("Download of image x failed: Checksum file does not contain name a.raw", True),
        ("Received status code 404 from http://a/b, expected 200. Response", True),
        ("Received status code 503 from http://a/b, expected 200. Response", False),
        ("Received status code 403 from http://a/b, expected 200. Response", False),
        ("Download of image x failed: Unable to write image to device /dev/sda", False),
        ("not valid for use: Security: Expected format was raw, but image was actually", True),
        ("not valid for use: Install of legacy BIOS bootloaders disabled by CONF", False),
        (f"Writing image to device /dev/a failed with\n {NO_DRIVER.format('/tmp/b')}", True),
        (f"Writing image to device /dev/a failed with {NO_DRIVER.format('/dev/a')}", False),
        ("Writing image to device /dev/a failed with exit code 1. No space left", False),
        ("Failed to install a bootloader when deploying node n: grub-install: not found", True),
        ("Failed to install a bootloader when deploying node n: efibootmgr: No space", False),
    ],
)
def test_only_some_faults_of_the_agent_are_the_images(said: str, is_image: bool) -> None:
    assert instance_info.is_image_fault(AGENT.format(said)) is is_image
