# SPDX-License-Identifier: Apache-2.0

"""What a look at a node says of the deployment on it."""

from __future__ import annotations

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.deploy import outcome

INSTANCE = virt.Instance("6d2b4f02-0000-4000-8000-000000000001", "instance", virt.Flavor("bm"))
UUID = "6d2b4f02-0000-4000-8000-00000000000a"


def test_of_a_state_that_no_table_has_it_may_become_active() -> None:
    there = Node(uuid=UUID, instance_uuid=INSTANCE.uuid, provision_state="brand new")
    assert outcome.deployed(INSTANCE, there) is None


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
    found = outcome.failure(there, INSTANCE, "it failed", said, "req-1")
    assert type(found) is kind
    assert (found.node, found.instance) == (UUID, INSTANCE.uuid)
    assert (found.last_error, found.request_id) == (said, "req-1")
