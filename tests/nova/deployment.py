# SPDX-License-Identifier: Apache-2.0

"""A whole Nova in this process, from Nova's own functional fixtures, over a real Ironic.

API, scheduler, conductor, compute and Placement are the real ones; networks, images and
volumes are Nova's stand-ins.  Two things of the fixtures are undone: they keep openstacksdk
from finding endpoints, and the in-tree driver needs Ironic's; and their cells have a lock
that ours do without (:mod:`tests.nova.cells`).
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import openstack.proxy
import requests
from keystoneauth1 import loading
from nova import conf as nova_conf
from nova import utils
from nova.tests.functional import integrated_helpers

from ironic_virt.nova import options as ours
from ironic_virt.testing import real_ironic
from tests.nova import cases, cells, figures

CONF = nova_conf.CONF
DRIVERS = {figures.IN_TREE: "ironic.IronicDriver", figures.OURS: "ironic_virt.IronicDriver"}
IMAGE = "155d900f-4e14-4e4c-a73d-069cbf4541e6"
OTHER_IMAGE = "a2459075-d96c-40d5-893e-577ff92e721c"
SEEDS = itertools.count(5000)
RESOURCE_CLASS = "baremetal-gold"
_PATIENCE = 120.0
_get_endpoint = openstack.proxy.Proxy.get_endpoint


def _endpoint_of_ironic(proxy: Any, *args: Any, **kwargs: Any) -> Any:
    if proxy.service_type == "baremetal":
        return _get_endpoint(proxy, *args, **kwargs)
    return mock.MagicMock()


class Deployment(cases.UnderPytest, integrated_helpers.ProviderUsageBaseTestCase):
    """Base class of scenarios; a subclass names the driver.

    :cvar driver: whose ``nova-compute`` it is.
    :ivar requests: what was sent to Ironic and Placement.
    :ivar bound_to: the hosts that Nova has bound ports to, which is Ironic's affair.
    """

    driver = figures.OURS
    compute_driver = DRIVERS[figures.OURS]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.compute_driver = DRIVERS[cls.driver]

    def setUp(self) -> None:
        """Start Nova, but for nova-compute."""
        # Where pip has put api-paste.ini.
        self.flags(state_path=sys.prefix)
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(cells.without_a_lock())
        super().setUp()

    def start_nova(self, ironic: real_ironic.RealIronic, **options: Any) -> None:
        """Point ``[ironic]`` to a real one; no compute runs yet."""
        self._ironic = ironic
        self._http = requests.Session()
        CONF.register_opts(loading.get_auth_plugin_conf_options("none"), group="ironic")
        self.flags(auth_type="none", endpoint_override=ironic.url, group="ironic")
        # The driver does this itself, but only when it is loaded.
        ours.register_opts(CONF)
        for name, value in options.items():
            self.flags(**{name: value}, group="ironic")
        self.flags(cores=-1, ram=-1, group="quota")
        # Nova's stand-in for Neutron knows no port that is not bound to a host.
        update_port = self.neutron.update_port
        self.bound_to = []

        def update_unbound(port_id: str, body: Any = None) -> Any:
            host = body["port"].pop("binding:host_id", None)
            if host is not None:
                self.bound_to.append(host)
            return update_port(port_id, body)

        self.neutron.update_port = update_unbound
        self.stub_out("openstack.proxy.Proxy.get_endpoint", _endpoint_of_ironic)
        self.counted = figures.Requests(ironic=ironic.url, placement=self.placement_url())
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(self.counted.counting())
        self.flavor_id = self._create_flavor(
            memory_mb=16384,
            vcpu=8,
            disk=100,
            ephemeral=0,
            extra_spec={
                "resources:CUSTOM_BAREMETAL_GOLD": "1",
                "resources:VCPU": "0",
                "resources:MEMORY_MB": "0",
                "resources:DISK_GB": "0",
            },
        )

    def placement_url(self) -> str:
        """Where Placement is."""
        return self.placement.fixture.endpoint

    def make_nodes(self, count: int, **fields: Any) -> list[str]:
        """Nodes that no other scenario has, removed at the end."""
        seed = next(SEEDS)
        fields.setdefault("resource_class", RESOURCE_CLASS)
        template = real_ironic.NodeTemplate(**fields)
        nodes = real_ironic.create_nodes(
            self._ironic, count, template, name=f"nova-{seed}-{{}}", seed=seed
        )
        self.addCleanup(self._remove, nodes)
        return nodes

    def _remove(self, nodes: list[str]) -> None:
        # Maintenance lets a node go from any state.
        for node in nodes:
            self.ironic("PUT", f"/nodes/{node}/maintenance", {})
            self.ironic("PATCH", f"/nodes/{node}", [{"op": "remove", "path": "/instance_uuid"}])
            self.ironic("DELETE", f"/nodes/{node}")

    # -- somebody else on Ironic ----------------------------------------------

    def ironic(self, method: str, path: str, body: Any = None) -> Any:
        """A request of an operator's."""
        answer = self._http.request(
            method,
            f"{self._ironic.url}/v1{path}",
            json=body,
            headers={"X-OpenStack-Ironic-API-Version": "latest"},
            timeout=60,
        )
        return answer.json() if answer.content else None

    def node(self, uuid: str) -> dict[str, Any]:
        """A node as it is."""
        return self.ironic("GET", f"/nodes/{uuid}")

    def wait_for_node(self, uuid: str, state: str) -> dict[str, Any]:
        """A node when it is in a provision state and unlocked."""
        return self.until(
            lambda: self.node(uuid),
            lambda seen: seen["provision_state"] == state and seen["reservation"] is None,
        )

    # -- servers --------------------------------------------------------------

    def boot(self, name: str = "server", networks: Any = "none", **more: Any) -> dict[str, Any]:
        """Ask for a server."""
        wanted = {"name": name, "imageRef": IMAGE, "flavorRef": self.flavor_id}
        return self.api.post_server({"server": {**wanted, "networks": networks, **more}})

    def act(self, server: dict[str, Any], **action: Any) -> None:
        """Ask for an action."""
        self.api.post_server_action(server["id"], action)

    def rebuild(
        self, server: dict[str, Any], image: str = OTHER_IMAGE, *, microversion: str = "2.92"
    ) -> None:
        """Ask for a server to be rebuilt.

        :param microversion: from 2.93 on Nova's driver refuses it.
        """
        with utils.temporary_mutation(self.api, microversion=microversion):
            self.act(server, rebuild={"imageRef": image})

    def say_image_type(self, node: str) -> None:
        """Say what Ironic can't ask Glance, as there is none; it rebuilds nothing else."""
        path = "/instance_info/image_type"
        self.ironic(
            "PATCH", f"/nodes/{node}", [{"op": "add", "path": path, "value": "whole-disk"}]
        )

    def server(self, server: dict[str, Any]) -> dict[str, Any]:
        """A server as it is."""
        return self.api.get_server(server["id"])

    def wait_for(self, server: dict[str, Any], status: str) -> dict[str, Any]:
        """A server when it has a status and nothing is being done to it."""

        def there(seen: dict[str, Any]) -> bool:
            assert status == "ERROR" or seen["status"] != "ERROR", seen.get("fault", seen)
            if status == "ERROR" and "fault" not in seen:
                return False
            return seen["status"] == status and not seen["OS-EXT-STS:task_state"]

        return self.until(lambda: self.server(server), there)

    def delete(self, server: dict[str, Any]) -> None:
        """Delete a server, and wait until it is gone."""
        self.api.delete_server(server["id"])
        self.until(self.api.get_servers, lambda seen: server["id"] not in {s["id"] for s in seen})

    def node_of(self, server: dict[str, Any]) -> str:
        """The node that Nova gave to a server."""
        return self.server(server)["OS-EXT-SRV-ATTR:hypervisor_hostname"]

    def told_by_the_events(self, server: dict[str, Any]) -> str:
        """What the server's actions say to its user."""
        actions = self.api.get_instance_actions(server["id"])
        details = [
            self.api.api_get(
                f"/servers/{server['id']}/os-instance-actions/{action['request_id']}"
            ).body["instanceAction"]
            for action in actions
        ]
        return str([event.get("details") for one in details for event in one["events"]])

    def until(self, look: Callable[[], Any], done: Callable[[Any], bool]) -> Any:
        """What is seen when it is as wanted."""
        deadline = time.monotonic() + _PATIENCE
        while not done(seen := look()):
            assert time.monotonic() < deadline, seen
            time.sleep(0.05)
        return seen

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step of a scenario."""
        with self.counted.measuring(self.driver, name):
            yield
