# SPDX-License-Identifier: Apache-2.0

"""Nova's in-tree driver, as nova-compute runs it, but without Nova's database.

The driver is made from its own class and by Nova's own options, in native
threading, which is nova-compute's default.  What it asks of the database, by way
of Nova's objects, is answered from memory; nothing else is replaced.  That makes
the peer cheaper than it is in a real nova-compute, never dearer.

It changes classes of Nova for good: use it in its own process
(:mod:`benchmarks.side`), once.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

HOST = "compute-1"
PROJECT = "5b1f6d2c8e3a4f70a9d4c1e2b3f40516"
USER = "c0a8e51f7d2b4b6e93f1a2d3c4b5e6f7"


class InTree:
    """A driver, and what stands behind it.

    :param url: of Ironic.
    :param options: of ``[ironic]``, as in nova.conf, by name.

    :ivar driver: a ``nova.virt.ironic.driver.IronicDriver`` for which ``init_host``
        has been called.
    :ivar instances: the uuids of the instances that this host has, in a list as
        Nova's own query returns one.
    """

    def __init__(self, url: str, options: Mapping[str, str] | None = None) -> None:
        from nova import monkey_patch

        monkey_patch.patch(backend="threading")
        from keystoneauth1 import loading
        from nova import conf, objects
        from nova.virt.ironic import driver

        self.instances: list[str] = []
        self.objects = objects
        objects.register_all()
        self._replace_queries(objects)
        conf.CONF.register_opts(loading.get_auth_plugin_conf_options("none"), group="ironic")
        values = {"auth_type": "none", "endpoint_override": url} | dict(options or {})
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "nova.conf")
            lines = [f"{name} = {value}" for name, value in values.items()]
            path.write_text("\n".join(["[DEFAULT]", f"host = {HOST}", "[ironic]", *lines, ""]))
            conf.CONF(["--config-file", str(path)], project="nova", default_config_files=[])
            self.driver = driver.IronicDriver(None)
            self.driver.servicegroup_api.service_is_up = lambda service: True
            self.driver.init_host(HOST)
            # Made at the first use otherwise, when the file is gone.
            self.driver.ironic_connection  # noqa: B018

    def _replace_queries(self, objects: Any) -> None:
        service = objects.Service(host=HOST)
        objects.ServiceList.get_all_computes_by_hv_type = lambda context, hv_type: [service]
        objects.InstanceList.get_uuids_by_host = lambda context, host: self.instances
        objects.Instance.refresh = lambda instance, use_slave=False: None
        objects.Instance.save = lambda instance, *args, **kwargs: instance.obj_reset_changes()

    def own(self, uuids: Iterable[str]) -> None:
        """Let the records give these instances, and no others, to this host."""
        self.instances[:] = uuids

    def instance(self, uuid: str, node: str, number: int = 1) -> Any:
        """An instance that is being built on a node, and is this host's.

        :param number: its row's id, which its name is made of.
        """
        from nova import context
        from nova.compute import task_states, vm_states

        flavor = self.objects.Flavor(
            id=1,
            name="baremetal",
            flavorid="baremetal",
            vcpus=8,
            memory_mb=16384,
            root_gb=100,
            ephemeral_gb=0,
            swap=0,
            extra_specs={},
        )
        self.instances.append(uuid)
        instance = self.objects.Instance(
            context.get_admin_context(),
            id=number,
            uuid=uuid,
            host=HOST,
            node=node,
            display_name=f"instance-{number}",
            hostname=f"instance-{number}",
            project_id=PROJECT,
            user_id=USER,
            vm_state=vm_states.BUILDING,
            task_state=task_states.SPAWNING,
            config_drive="",
            image_ref="",
            key_data=None,
            launched_at=None,
            flavor=flavor,
            metadata={},
            system_metadata={},
        )
        instance.obj_reset_changes()
        return instance

    def image(self, ident: str) -> Any:
        """An image's metadata, as ``spawn`` takes it.

        :param ident: what Ironic gets as ``image_source``.
        """
        return self.objects.ImageMeta.from_dict({"id": ident, "properties": {}})

    def spawn(self, instance: Any, image: Any) -> None:
        """Reserve the instance's node and deploy, as nova-compute does, until it is active."""
        from nova.network import model

        self.driver.prepare_for_spawn(instance)
        self.driver.spawn(
            instance._context,
            instance,
            image,
            injected_files=[],
            admin_password=None,
            allocations={},
            network_info=model.NetworkInfo(),
            block_device_info={},
        )
