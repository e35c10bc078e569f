# SPDX-License-Identifier: Apache-2.0

"""A whole Nova in this process, from Nova's own functional fixtures, over a real Ironic.

API, scheduler, conductor, compute and Placement are the real ones; networks, images and
volumes are Nova's stand-ins.  Two things of the fixtures are undone: they keep openstacksdk
from finding endpoints, and either driver needs Ironic's; and their cells have a lock
that ours do without (:mod:`tests.nova.cells`).
"""

import contextlib
import importlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import fixtures
import pytest
import requests
import sqlalchemy
from keystoneauth1 import loading
from nova import conf as nova_conf
from nova import context, utils
from nova.tests.functional import integrated_helpers
from oslo_db.sqlalchemy import engines

from ironic_virt.nova import options as ours
from tests.nova import cases, cells, figures
from tools import real_ironic

CONF = nova_conf.CONF
DRIVERS = {figures.IN_TREE: "ironic.IronicDriver", figures.OURS: "ironic_virt.IronicDriver"}
IMAGE = "155d900f-4e14-4e4c-a73d-069cbf4541e6"
OTHER_IMAGE = "a2459075-d96c-40d5-893e-577ff92e721c"
SEEDS = itertools.count(5000)
RESOURCE_CLASS = "baremetal-gold"
_PATIENCE = 300.0
_LONG = 600
"""Seconds after which Nova gives somebody else up; its defaults are a minute."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_PAUSE_BY_LOOK = 6
"""How many times longer than a look took is the pause after it: the Nova that is looked at
through its API works in this process, and looks would take most of it."""
_GONE = (204, 404)
_LOCKED = "is locked by host"


def _shut_down(service: Any) -> None:
    """Shut down in this thread: a new one, as in Nova, could outlive the test."""
    service.manager.graceful_shutdown(0)


class Deployment(cases.UnderPytest, integrated_helpers.ProviderUsageBaseTestCase):
    """Base class of scenarios; a subclass is given what it needs as keywords.

    One whose name begins with Test is run; any other is the base of such classes.

    :cvar driver: whose ``nova-compute`` it is.
    :cvar given: the fixture with the Ironic that the scenario may use; ``None``: none.
    :cvar starts: begin with a Nova that runs over that, but for nova-compute.
    :cvar options: of ``[ironic]``, for all services, in that case.
    :cvar seeds: of nodes; each time that some are made takes one.
    :ivar requests: what was sent to Ironic and Placement.
    :ivar bound_to: the hosts that Nova has bound ports to, which is Ironic's affair.
    """

    driver = figures.OURS
    compute_driver = DRIVERS[figures.OURS]
    given: str | None = "ironic"
    starts = False
    options: ClassVar[Mapping[str, Any]] = {}
    seeds: Iterator[int] = SEEDS

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__()
        for name, value in given.items():
            setattr(cls, name, value)
        cls.__test__ = cls.__name__.startswith("Test")
        cls.compute_driver = DRIVERS[cls.driver]

    @pytest.fixture(autouse=True)
    def _given(self, request: pytest.FixtureRequest) -> None:
        if self.given is not None:
            self._real: real_ironic.RealIronic = request.getfixturevalue(self.given)

    def setUp(self) -> None:
        """Start Nova, but for nova-compute."""
        # Where pip has put api-paste.ini.
        self.flags(state_path=sys.prefix)
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(cells.without_a_lock())
        # No database outlives the test, so none has to reach the disk.
        create = engines.create_engine
        self.stub_out(
            "oslo_db.sqlalchemy.engines.create_engine",
            lambda *args, **options: create(*args, **{**options, "sqlite_synchronous": False}),
        )
        # A busy machine must not make a service look dead: it is down when a test says so.
        # The scheduler reads it when it starts.
        self.flags(service_down_time=_LONG)
        super().setUp()
        # What a nova-compute leaves there is for the next one of this test.
        self.flags(state_path=self.useFixture(fixtures.TempDir()).path)
        self.flags(rpc_response_timeout=_LONG)
        # New in Nova 34.  Nova 29 can't be asked to import it first.
        service = importlib.import_module("nova.service")
        if hasattr(service.Service, "_run_manager_graceful_shutdown"):
            self.stub_out("nova.service.Service._run_manager_graceful_shutdown", _shut_down)
        if self.starts:
            self.start_nova(self._real, **self.options)

    def start_nova(self, ironic: real_ironic.RealIronic, **options: Any) -> None:
        """Point ``[ironic]`` to a real one; no compute runs yet."""
        self._ironic = ironic
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
        cases.let_ironic_be_found(self)
        self.counted = figures.Requests(ironic=ironic.url, placement=self.placement_url())
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(self.counted.counting())
        self.flavor_id = self.make_flavor()

    def placement_url(self) -> str:
        """Where Placement is."""
        return self.placement.fixture.endpoint

    def make_flavor(self, *, ephemeral: int = 0, **extra_specs: str) -> str:
        """A flavor that asks for one of the nodes.

        :param ephemeral: GiB of the ephemeral disk.
        :param extra_specs: further ones, with ``__`` for a colon.
        """
        return self._create_flavor(
            memory_mb=16384,
            vcpu=8,
            disk=100,
            ephemeral=ephemeral,
            extra_spec={
                "resources:CUSTOM_BAREMETAL_GOLD": "1",
                "resources:VCPU": "0",
                "resources:MEMORY_MB": "0",
                "resources:DISK_GB": "0",
                **{name.replace("__", ":"): value for name, value in extra_specs.items()},
            },
        )

    def make_nodes(self, count: int, **fields: Any) -> list[str]:
        """Nodes that no other scenario has, removed at the end."""
        seed = next(self.seeds)
        fields.setdefault("resource_class", RESOURCE_CLASS)
        template = real_ironic.NodeTemplate(**fields)
        nodes = real_ironic.create_nodes(
            self._ironic, count, template, name=f"nova-{seed}-{{}}", seed=seed
        )
        self.addCleanup(self._remove, nodes)
        return nodes

    def start_with_a_node(self, **fields: Any) -> str:
        """A node, and a nova-compute that has it."""
        (node,) = self.make_nodes(1, **fields)
        self.start_service("compute", "compute1")
        return node

    def _remove(self, nodes: list[str]) -> None:
        """Return when they are gone: the next scenario's compute would find them."""
        for node in nodes:
            self.until(lambda node=node: self._removed(node), lambda code: code in _GONE)

    def _removed(self, node: str) -> int:
        # Maintenance lets a node go from any state, but for one that is protected.
        self._asked("PUT", f"/nodes/{node}/maintenance", {})
        self._asked(
            "PATCH", f"/nodes/{node}", [{"op": "add", "path": "/protected", "value": False}]
        )
        self._asked("PATCH", f"/nodes/{node}", [{"op": "remove", "path": "/instance_uuid"}])
        return self._asked("DELETE", f"/nodes/{node}").status_code

    # -- an operator of Ironic ------------------------------------------------

    def ironic(self, method: str, path: str, body: Any = None) -> Any:
        """An operator's request, repeated while the node has an operation in progress."""
        answer = self._asked(method, path, body)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def _asked(self, method: str, path: str, body: Any = None) -> requests.Response:
        def ask() -> requests.Response:
            # Ironic ends a connection that nobody uses, perhaps when we are just about to.
            return requests.request(
                method,
                f"{self._ironic.url}/v1{path}",
                json=body,
                headers={"X-OpenStack-Ironic-API-Version": "latest"},
                timeout=_PATIENCE,
            )

        # A node is shown in its new state before Ironic lets go of it.
        return self.until(
            ask, lambda answer: answer.status_code != 409 or _LOCKED not in answer.text
        )

    def node(self, uuid: str) -> dict[str, Any]:
        return self.ironic("GET", f"/nodes/{uuid}")

    def kept_by_ironic(self, node: str) -> dict[str, Any]:
        """A node's ``instance_info`` as its conductor has it; the API hides some of it."""
        engine = sqlalchemy.create_engine(self._ironic.database_url)
        self.addCleanup(engine.dispose)
        statement = sqlalchemy.text("SELECT instance_info FROM nodes WHERE uuid = :node")
        with engine.connect() as connection:
            (text,) = connection.execute(statement, {"node": node}).one()
        kept: dict[str, Any] = json.loads(text)
        return kept

    def deployed_long_ago(self, node: str) -> str:
        """Put a node's last deployment into the past, as Ironic tells it in whole seconds.

        :returns: its ``provision_updated_at`` now.
        """
        engine = sqlalchemy.create_engine(self._ironic.database_url)
        self.addCleanup(engine.dispose)
        statement = "UPDATE nodes SET provision_updated_at = '2020-01-01' WHERE uuid = :node"
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement), {"node": node})
        then: str = self.node(node)["provision_updated_at"]
        assert then.startswith("2020-01-01")
        return then

    def set_on_node(self, node: str, **fields: Any) -> None:
        """Set fields of a node, as an operator does."""
        patch = [
            {"op": "add", "path": f"/{name}", "value": value} for name, value in fields.items()
        ]
        answer = self.ironic("PATCH", f"/nodes/{node}", patch)
        assert {name: answer.get(name) for name in fields} == fields, answer

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

    def new_server(self, name: str = "server", **more: Any) -> dict[str, Any]:
        """A server that has been built."""
        return self.wait_for(self.boot(name, **more), "ACTIVE")

    def act(self, server: dict[str, Any], **action: Any) -> None:
        self.api.post_server_action(server["id"], action)

    def rebuild(
        self, server: dict[str, Any], image: str = OTHER_IMAGE, *, microversion: str = "2.92"
    ) -> None:
        """Ask for a server to be rebuilt.

        :param microversion: from 2.93 on Nova's driver refuses it.
        """
        with utils.temporary_mutation(self.api, microversion=microversion):
            self.act(server, rebuild={"imageRef": image})

    def say_image_type(self, node: str, kind: str = "whole-disk") -> None:
        """Say what Ironic can't ask Glance, as there is none; it rebuilds nothing else."""
        path = "/instance_info/image_type"
        self.ironic("PATCH", f"/nodes/{node}", [{"op": "add", "path": path, "value": kind}])

    def server(self, server: dict[str, Any]) -> dict[str, Any]:
        return self.api.get_server(server["id"])

    def wait_for(self, server: dict[str, Any], status: str) -> dict[str, Any]:
        """A server when it has a status and no task."""

        def there(seen: dict[str, Any]) -> bool:
            assert status == "ERROR" or seen["status"] != "ERROR", seen.get("fault", seen)
            if status == "ERROR" and "fault" not in seen:
                return False
            return seen["status"] == status and not seen["OS-EXT-STS:task_state"]

        return self.until(lambda: self.server(server), there)

    def delete(self, server: dict[str, Any]) -> None:
        """Delete a server, and wait until it is gone."""
        self.api.delete_server(server["id"])
        self.wait_until_gone(server)

    def wait_until_gone(self, server: dict[str, Any]) -> None:
        """Return when Nova shows a server no more."""
        self.until(self.api.get_servers, lambda seen: server["id"] not in {s["id"] for s in seen})

    def node_of(self, server: dict[str, Any]) -> str:
        """The node that Nova gave to a server."""
        return self.server(server)["OS-EXT-SRV-ATTR:hypervisor_hostname"]

    def reboot(self, server: dict[str, Any]) -> None:
        """Reboot a server the hard way."""
        self.act(server, reboot={"type": "HARD"})
        self.wait_for(server, "ACTIVE")

    def carrier(self, server: dict[str, Any]) -> str:
        """The node that has a server, as Ironic says; of one in a pool, Nova names that."""
        path = f"/nodes?instance_uuid={server['id']}&fields=uuid"
        (node,) = self.ironic("GET", path)["nodes"]
        return str(node["uuid"])

    def delete_and_free(self, server: dict[str, Any]) -> None:
        """Delete a server, and wait until its node is free."""
        node = self.carrier(server)
        self.delete(server)
        left = self.wait_for_node(node, "available")
        assert (left["allocation_uuid"], left["instance_uuid"]) == (None, None)

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

    # -- services -------------------------------------------------------------

    def refresh(self, *computes: Any) -> None:
        """Nova's periodic task in each of these services, one after the other."""
        for compute in computes:
            compute.manager.update_available_resource(context.get_admin_context())

    def free_places(self) -> dict[str, int]:
        """How many servers Placement would put onto each provider that takes any."""
        found = {}
        for provider in self._get_all_providers():
            uuid = provider["uuid"]
            [(name, inventory)] = self._get_provider_inventory(uuid).items()
            used = self._get_provider_usages(uuid).get(name, 0)
            if (left := inventory["total"] - inventory["reserved"] - used) > 0:
                found[provider["name"]] = left
        return found

    def until(self, look: Callable[[], Any], done: Callable[[Any], bool]) -> Any:
        """What is seen when it is as wanted."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            began = time.monotonic()
            if done(seen := look()):
                return seen
            now = time.monotonic()
            assert now < deadline, seen
            pause = max(_SHORTEST_PAUSE, _PAUSE_BY_LOOK * (now - began))
            time.sleep(min(pause, _LONGEST_PAUSE))

    @contextlib.contextmanager
    def step(self, name: str, node: str | None = None) -> Iterator[None]:
        """Measure a step of a scenario.

        :param node: that Ironic has to have let go of before, since a request that meets its
            lock is sent again.
        """
        if node is not None:
            self.until(lambda: self.node(node), lambda seen: seen["reservation"] is None)
        with self.counted.measuring(self.driver, name):
            yield
