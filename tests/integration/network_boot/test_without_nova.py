# SPDX-License-Identifier: Apache-2.0

"""A real ``ironic-virt-compute`` whose nodes boot over the network."""

import contextlib
from collections.abc import Iterator

from ironic_virt import virt
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState
from ironic_virt.conf import database as database_options
from tests.functional.compute.processes import (
    FLAVOR,
    ComputeProcess,
    new_uuid,
    wait_for,
    wait_for_nodes,
    wait_until,
)
from tests.integration.network_boot.deployments import BootStage, iso_by_url, kernel_by_url

SHARD = "without-nova"


@contextlib.contextmanager
def started(stage: BootStage) -> Iterator[Database]:
    """The records of a compute service that serves our shard."""
    process = ComputeProcess(
        *(stage.directory, "compute1", "unused", stage.ironic.url),
        ironic={"shard_key": SHARD},
        database={"connection": None},
    )
    try:
        process.started()
        db = Database(database_options.load([str(process.config)])).open()
        with contextlib.closing(db):
            yield db
    finally:
        process.kill()


def test_a_service_has_images_booted_and_deletes_what_they_left(stage: BootStage) -> None:
    wanted = {
        stage.boot_node("ramdisk", shard=SHARD, resource_class="gold"): image
        for image in (iso_by_url(stage.images), kernel_by_url(stage.images, "kernel"))
    }
    with started(stage) as db:
        wait_for_nodes(db, "compute1", list(wanted))
        instances = []
        for node, image in wanted.items():
            ports = (virt.Vif(new_uuid()),)
            new = records.NewInstance(new_uuid(), FLAVOR, image, ports=ports)
            db.instances.create_several([(new, db.compute_nodes.get(node))])
            instances.append(new.uuid)
        for instance in instances:
            wait_until(db, instance, "active")
        with_iso, with_kernel = wanted
        url = f"{stage.boot_files.url}/{with_iso}"
        assert f"sanboot {url}/boot_iso" in stage.text(with_iso, "config")
        assert stage.text(with_kernel, "kernel") == "kernel"
        for instance in instances:
            db.instances.request(instance, TaskState.DELETING)
        wait_for("all to be deleted", lambda: not db.instances.list())
        for node in wanted:
            stage.assert_nothing_is_left(node)
