# SPDX-License-Identifier: Apache-2.0

"""A real ``ironic-virt-compute`` whose nodes boot over the network."""

from __future__ import annotations

import uuid
from pathlib import Path

import real_ironic
from ironic_virt import virt
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState
from ironic_virt.conf import database as database_options
from tests.functional.compute.processes import (
    FLAVOR,
    ComputeProcess,
    wait_for,
    wait_for_nodes,
    wait_until,
)
from tests.integration.network_boot.boot_files import BootFiles, Images
from tests.integration.network_boot.deployments import (
    MakeNode,
    assert_nothing_is_left,
    iso_by_url,
    kernel_by_url,
)
from tests.integration.services import Operator

SHARD = "without-nova"


def test_a_service_has_images_booted_and_deletes_what_they_left(
    ironic: real_ironic.RealIronic,
    operator: Operator,
    images: Images,
    boot_files: BootFiles,
    make_node: MakeNode,
    tmp_path: Path,
) -> None:
    wanted = {
        make_node("ramdisk", shard=SHARD, resource_class="gold"): image
        for image in (iso_by_url(images), kernel_by_url(images, "kernel"))
    }
    service = ComputeProcess(
        tmp_path, "compute1", "unused", ironic.url, ironic={"shard_key": SHARD}
    )
    service.configure(database={"connection": None})
    db = Database(database_options.load([str(service.config)]), patient=False).open()
    try:
        service.started()
        wait_for_nodes(db, "compute1", list(wanted))
        instances = []
        for node, image in wanted.items():
            ports = (virt.Vif(str(uuid.uuid4())),)
            new = records.NewInstance(str(uuid.uuid4()), FLAVOR, image, ports=ports)
            db.instances.create_building(new, db.compute_nodes.get(node))
            instances.append(new.uuid)
        for instance in instances:
            wait_until(db, instance, "active")
        with_iso, with_kernel = wanted
        assert f"sanboot {boot_files.url}/{with_iso}/boot_iso" in boot_files.text(
            with_iso, "config"
        )
        assert boot_files.text(with_kernel, "kernel") == "kernel"
        for instance in instances:
            db.instances.request(instance, TaskState.DELETING)
        wait_for("all to be deleted", lambda: not db.instances.list())
        for node in wanted:
            assert_nothing_is_left(operator, boot_files, node)
    finally:
        service.kill()
        db.close()
