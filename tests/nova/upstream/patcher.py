# SPDX-License-Identifier: Apache-2.0

"""What Nova's tests find in the place of ``nova.virt.ironic.patcher``.

Ours makes what it writes first; the tests look at one addition for each key.
"""

import json
from typing import Any

from nova import conf as nova_conf

from ironic_virt import virt
from ironic_virt.baremetal.node_decoder import NodeDecoder
from ironic_virt.driver import resources
from ironic_virt.driver.deploy import instance_info, rebuild_info
from ironic_virt.nova import values, virtapi
from tests.nova.upstream import wire


class GenericDriverFields:
    """Ours, for one node."""

    def __init__(self, node: Any) -> None:
        body = json.dumps(wire.node(node, node.id))
        self._node = NodeDecoder().one(body.encode())

    def get_deploy_patch(
        self,
        instance: Any,
        image_meta: Any,
        flavor: Any,
        metadata: Any,
        preserve_ephemeral: bool | None = None,
        boot_from_volume: bool = False,
    ) -> list[dict[str, Any]]:
        """What ours would tell Ironic of a server.

        :param preserve_ephemeral: given for a rebuild only.
        """
        # Nova's has them from the metadata, which is made of the instance.
        instance.project_id = metadata.owner.projectid
        instance.user_id = metadata.owner.userid
        for name in ("name", "swap", "extra_specs"):
            # A test may have given the instance a flavor with its sizes only.
            setattr(instance.flavor, name, getattr(flavor, name))
        note_owner(instance, metadata)
        more = virtapi.NovaVirtAPI(nova_conf.CONF).deploy_metadata(
            instance, values.Vifs(metadata.network_info)
        )
        request = virt.DeployRequest(
            instance,
            image_meta,
            block_devices=[virt.BlockDevice("root", 0, {})] if boot_from_volume else [],
            preserve_ephemeral=bool(preserve_ephemeral),
        )
        if preserve_ephemeral is None:
            info = instance_info.make_info(request, self._node, more)
        else:
            info = rebuild_info.make_info(request, self._node, more)
            # Our driver recognizes its rebuild and its keys by these.
            del info[resources.REBUILD_MARK], info[instance_info.KEYS]
        # The tests' server has no display name, which Nova's API sees to.
        info["display_name"] = instance.display_name
        return [
            {"op": "add", "path": f"/instance_info/{key}", "value": value}
            for key, value in info.items()
        ]


def note_owner(instance: Any, metadata: Any) -> None:
    """Note on a server what Nova's metadata say of its owner, where ours finds it."""
    instance.system_metadata = {
        "owner_project_name": metadata.owner.projectname,
        "owner_user_name": metadata.owner.username,
    }


def create(node: Any) -> GenericDriverFields:
    """As Nova's."""
    return GenericDriverFields(node)
