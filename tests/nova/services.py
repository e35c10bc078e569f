# SPDX-License-Identifier: Apache-2.0

"""Several compute services in one process, each with its own ``[ironic]`` options.

Nova's configuration is one object for the whole process, and both drivers read their
host and their ``[ironic]`` options from it.  So each service gets a driver that reads
another one, that of its service.  Ours is handed it when it is made.  The in-tree
driver reads a global of its module; each service gets its own module, loaded from
the same file.  Nothing else of either driver is touched; Nova's own loader loads it.
"""

import importlib.util
import itertools
import sys
import types
from typing import Any
from unittest import mock

import nova.conf
from keystoneauth1 import loading
from nova import context, objects
from nova.cmd import manage
from nova.conf import ironic
from nova.conf import utils as conf_utils
from nova.virt.ironic import driver as in_tree
from oslo_config import cfg

import ironic_virt.nova.driver as ours
import ironic_virt.nova.options as ours_options
from tests.nova import figures
from tests.nova.deployment import Deployment

_NUMBERS = itertools.count(1)


class OwnConf(cfg.ConfigOpts):
    """Nova's configuration, but for the host's name and ``[ironic]``.

    :param host: the service's.
    :param options: of ``[ironic]``; the others there are as they are when this is made.
    """

    def __init__(self, host: str, options: dict[str, Any]) -> None:
        super().__init__()
        self.register_opt(cfg.StrOpt("host", default=host))
        # Not by Nova's function: groups made by that share their options.
        self.register_opts(ironic.ironic_options, group="ironic")
        conf_utils.register_ksa_opts(self, "ironic", ironic.DEFAULT_SERVICE_TYPE)
        self.register_opts(loading.get_auth_plugin_conf_options("none"), group="ironic")
        ours_options.register_opts(self)
        for name, value in {**nova.conf.CONF.ironic, **options}.items():
            if name in self.ironic and value != self.ironic[name]:
                self.set_override(name, value, group="ironic")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except cfg.NoSuchOptError:
            return getattr(nova.conf.CONF, name)


def own_door(driver: str, conf: cfg.ConfigOpts) -> str:
    """A name for ``compute_driver`` under which Nova loads a driver that reads a configuration.

    :param driver: :data:`figures.IN_TREE` or :data:`figures.OURS`.
    """
    name = f"ironic_of_service_{next(_NUMBERS)}"
    door = types.ModuleType(f"nova.virt.{name}")
    door.IronicDriver = (_in_tree if driver == figures.IN_TREE else _ours)(door.__name__, conf)
    sys.modules[door.__name__] = door
    return f"{name}.IronicDriver"


def _in_tree(name: str, conf: cfg.ConfigOpts) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}.driver", in_tree.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.CONF = conf
    return module.IronicDriver


def _ours(name: str, conf: cfg.ConfigOpts) -> Any:
    def load(*args: Any, **kwargs: Any) -> ours.IronicDriver:
        with mock.patch.object(nova.conf, "CONF", conf):
            return ours.IronicDriver(*args, **kwargs)

    return load


class Services(Deployment):
    """Base class of scenarios with several compute services."""

    def start_compute(self, host: str, driver: str | None = None, **options: Any) -> Any:
        """Start a compute service.

        :param driver: another one than the scenario's.
        :param options: its own in ``[ironic]``.
        """
        conf = OwnConf(host, options)
        self.flags(compute_driver=own_door(driver or self.driver, conf))
        return self.start_service("compute", host)

    def allocated(self) -> int:
        """How many nodes are allocated in Placement."""
        providers = self.placement_call("get", "/resource_providers")["resource_providers"]
        usages = [self._get_provider_usages(one["uuid"]) for one in providers]
        return sum(sum(usage.values()) for usage in usages)

    def hosts(self) -> dict[str, str]:
        """Which host's each node is, by Nova's records."""
        return {node: host for node, (_, host) in self.records().items()}

    def record_ids(self) -> dict[str, Any]:
        """The compute node record of each node; one that was made again has another id."""
        return {node: number for node, (number, _) in self.records().items()}

    def records(self) -> dict[str, tuple[Any, str]]:
        """Each node's compute node record and its host."""
        found = objects.ComputeNodeList.get_all(context.get_admin_context())
        return {one.hypervisor_hostname: (one.id, one.host) for one in found}

    def host_of(self, server: dict[str, Any]) -> str:
        """The host that Nova gave to a server."""
        return self.server(server)["OS-EXT-SRV-ATTR:host"]

    def boot_at(self, host: str, node: str, name: str = "server") -> dict[str, Any]:
        """A server on a node of an administrator's choice, when it is there."""
        server = self.new_server(name, availability_zone=f"nova:{host}:{node}")
        assert (self.host_of(server), self.node_of(server)) == (host, node)
        return server

    def force_down(self, host: str, down: bool = True) -> None:
        """Say that a service is down, as an administrator does, or not any more."""
        (service,) = self.api.get_services(host=host, binary="nova-compute")
        self.api.put_service(service["id"], {"forced_down": down})

    def move(self, node: str, host: str) -> None:
        """``nova-manage db ironic_compute_node_move``, by Nova's own code."""
        manage.DbCommands().ironic_compute_node_move(node, host)
