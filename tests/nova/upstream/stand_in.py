# SPDX-License-Identifier: Apache-2.0

"""What Nova's tests find in the place of ``nova.virt.ironic.driver``.

Our driver, over a :class:`~tests.nova.upstream.bridge.Bridge`, and the few names of
Nova's module that the tests need to say how things are.  A private method of Nova's
driver is here only if tests replace it for that; it does nothing by itself.
"""

import types
from typing import Any
from unittest import mock

from nova import conf as nova_conf
from nova import exception, objects
from nova.compute import provider_tree
from nova.virt import configdrive, netutils
from nova.virt.ironic import driver as in_tree

from ironic_virt import virt
from ironic_virt.baremetal.http import connection
from ironic_virt.driver.network_data import with_links
from ironic_virt.nova import driver as ours
from ironic_virt.nova import values
from ironic_virt.nova.errors import translated
from tests.nova.upstream import bridge, patcher

CONF = nova_conf.CONF

_ABOUT_NODES = "its mock says how a node is"
_WHAT_WAS_DONE = "its mock sees what was done"
_OUT_OF_THE_WAY = "its mock keeps away what has no part in the test"

REPLACED = {
    "_validate_instance_and_node": _ABOUT_NODES,
    "_get_node_list": _ABOUT_NODES,
    "_refresh_cache": _ABOUT_NODES,
    "_node_from_cache": _ABOUT_NODES,
    "_node_resources_used": _ABOUT_NODES,
    "_cleanup_deploy": _WHAT_WAS_DONE,
    "_remove_instance_info_from_node": _WHAT_WAS_DONE,
    "_generate_configdrive": "its mock is the config drive",
    "_refresh_hash_ring": _OUT_OF_THE_WAY,
    "_wait_for_active": _OUT_OF_THE_WAY,
    "_add_volume_target_info": _OUT_OF_THE_WAY,
    "_add_instance_info_to_node": _OUT_OF_THE_WAY,
}
"""Private methods of Nova's driver that tests may replace, and what for."""


_ANY_FLAVOR = {
    "name": "flavor",
    "root_gb": 1,
    "swap": 0,
    "vcpus": 1,
    "memory_mb": 1,
    "ephemeral_gb": 0,
    "extra_specs": {},
}


def _complete(arg: Any) -> None:
    """Fill the gaps in a flavor: a test that replaces who reads it leaves it at a name."""
    if not isinstance(arg, objects.Instance) or not arg.obj_attr_is_set("flavor"):
        return
    for name, value in _ANY_FLAVOR.items():
        if arg.flavor is not None and not arg.flavor.obj_attr_is_set(name):
            setattr(arg.flavor, name, value)


class _Calls:
    """The driver below the adapter; each call of it begins again in the bridge."""

    def __init__(self, driver: Any, over: bridge.Bridge, names: dict[str, Any]) -> None:
        self._driver = driver
        self._over = over
        self._names = names

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._driver, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            about = [one.instance if isinstance(one, virt.DeployRequest) else one for one in args]
            self._over.begin(name, *about)
            for one in about:
                _complete(one)
            return method(*[self._as_text(arg) for arg in args], **kwargs)

        return call

    def _as_text(self, arg: Any) -> Any:
        # Only a node's name is ever a sentinel, and Ironic knows texts only.
        if type(arg) is type(mock.sentinel.nodename):
            self._names[str(arg)] = arg
            return str(arg)
        return arg


class IronicDriver(ours.IronicDriver):
    """Our adapter, whose Ironic is what a test has set up in its mocks.

    :ivar node_cache: the nodes that Ironic lists, if a test says so by this name.
    """

    fields = in_tree._NODE_FIELDS
    _ironic_connection: Any = None

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        CONF.set_default("api_max_retries", default=1, group="ironic")
        CONF.set_default("api_retry_interval", default=0, group="ironic")
        self._over = bridge.Bridge(self)
        with mock.patch.object(connection.KeystoneChannel, "from_conf", return_value=self._over):
            super().__init__(virtapi, read_only)
        # None of Nova's tests begins with a start.
        self._starting = False
        self._names: dict[str, Any] = {}
        self._driver: Any = _Calls(self._driver, self._over, self._names)
        self.node_cache: dict[str, Any] = {}
        self.destroyed_network: Any = None
        self.given_network: Any = None
        self._keep_the_database_away()

    def _keep_the_database_away(self) -> None:
        """Answer from what a test says of the records, or as if nothing were in them."""
        records = self._records
        self._novas = {
            name: getattr(records, name)
            for name in ("abort_reason", "config_drive", "deploy_metadata")
        }
        records.node_owners = lambda uuids: {}
        records.instance_places = dict
        records.instance_hosts = lambda uuids: {}
        records.existing_instances = lambda uuids: ()
        records.noting = lambda doing, instance, *event: translated(doing, instance)
        records.known_instances = self._known_one_by_one
        records.abort_reason = self._abort_reason
        records.config_drive = self._config_drive
        records.deploy_metadata = self._deploy_metadata

    def _abort_reason(self, instance: Any) -> Any:
        replaced = isinstance(objects.Instance.refresh, mock.NonCallableMock)
        return self._novas["abort_reason"](instance) if replaced else None

    def _deploy_metadata(self, instance: Any, network_info: Any) -> Any:
        # Tests replace this public method on the driver's class.
        about = self.get_instance_driver_metadata(instance, values.model_of(network_info))
        patcher.note_owner(instance, about)
        return self._novas["deploy_metadata"](instance, values.Vifs(about.network_info))

    def _known_one_by_one(self, uuids: Any) -> dict[str, str]:
        """Asks the database in the way that tests have prepared."""
        if not isinstance(objects.Instance.get_by_uuid, mock.NonCallableMock):
            return {uuid: uuid for uuid in uuids}
        known = {}
        for uuid in uuids:
            try:
                known[uuid] = objects.Instance.get_by_uuid(None, uuid).name
            except exception.InstanceNotFound:
                continue
        return known

    def _is_told(self, name: str) -> bool:
        """Whether a test has replaced a private method of Nova's driver."""
        return getattr(getattr(self, name), "__func__", None) is not _DEFAULTS[name]

    def _name_of(self, uuid: str) -> Any:
        """What the test calls a node."""
        return self._names.get(uuid, uuid)

    # -- private methods of Nova's driver that are public in ours ---------------

    def _node_resource(self, node: Any) -> Any:
        self._over.give(node)
        return self.get_available_resource(node.id)

    def _node_resources_unavailable(self, node: Any) -> bool:
        node.resource_class = "gold"
        self._over.give(node)
        tree = provider_tree.ProviderTree()
        tree.new_root(node.id, node.id)
        self.update_provider_tree(tree, node.id)
        return bool(tree.data(node.id).inventory["CUSTOM_GOLD"]["reserved"])

    def _get_network_metadata(self, node: Any, network_info: Any) -> Any:
        self._over.give(node)
        known = netutils.get_network_metadata(network_info)
        links, _ = self._driver._driver._network.links(node.id)
        return None if known is None else with_links(known, links)

    def _plug_vifs(self, node: Any, instance: Any, network_info: Any) -> None:
        self._over.carry(node, instance.uuid)
        for vif in network_info:
            super().attach_interface(None, instance, None, vif)

    def _config_drive(self, request: virt.DeployRequest) -> Any:
        instance, password = request.instance, request.admin_password
        if not self._is_told("_generate_configdrive") or not configdrive.required_by(instance):
            return self._novas["config_drive"](request)
        drive = self._generate_configdrive(
            None,
            instance,
            None,
            values.model_of(request.network_info),
            extra_md={"admin_pass": password} if password else {},
            files=request.injected_files,
        )
        return virt.ConfigDrive(no_json="Nova's own driver", make_image=lambda _: drive.encode())

    # -- ours --------------------------------------------------------------------

    def attach_interface(self, context: Any, instance: Any, image_meta: Any, vif: Any) -> None:
        """As ours, of an instance that its node carries; a VIF may be a text."""
        self._over.carry(self._ironic_connection.get_node(instance.node), instance.uuid)
        self.given_network = [vif]
        given = {"id": vif} if isinstance(vif, str) else vif
        super().attach_interface(context, instance, image_meta, given)

    def prepare_networks_before_block_device_mapping(
        self, instance: Any, network_info: Any
    ) -> None:
        """As ours, of an instance that its node carries."""
        self._over.carry(self._ironic_connection.get_node(instance.node), instance.uuid)
        self.given_network = network_info
        super().prepare_networks_before_block_device_mapping(instance, network_info)

    def destroy(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        destroy_disks: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        """As ours, which has no need of the network's information."""
        self.destroyed_network = network_info
        super().destroy(
            context, instance, network_info, block_device_info, destroy_disks, destroy_secrets
        )


def _replaceable(self: Any, *args: Any, **kwargs: Any) -> None:
    raise AssertionError("a private method of Nova's driver was called that no test replaced")


for _name in REPLACED:
    setattr(IronicDriver, _name, _replaceable)

_DEFAULTS = {name: value for name, value in vars(IronicDriver).items() if callable(value)}


def module() -> types.ModuleType:
    """A stand-in for ``nova.virt.ironic.driver``."""
    made = types.ModuleType(in_tree.__name__, "Our driver, for Nova's tests.")
    made.IronicDriver = IronicDriver
    made.LOG = ours.LOG
    for name in ("_NODE_FIELDS", "_UNPROVISION_STATES", "_CONSOLE_STATE_CHECKING_INTERVAL"):
        setattr(made, name, getattr(in_tree, name))
    return made
