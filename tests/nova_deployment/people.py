# SPDX-License-Identifier: Apache-2.0

"""A user, who requests servers, and an operator, who looks at Ironic and Placement."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import requests

from tests.nova_deployment import figures
from tests.nova_deployment.configuration import ADMIN
from tests.nova_deployment.processes import wait_for
from tools import real_ironic

IMAGE = "155d900f-4e14-4e4c-a73d-069cbf4541e6"
FLAVOR = "1"
_REQUEST_SECONDS = 300.0


class _Api:
    """Requests to one service.

    :param sent: called after each request.
    """

    def __init__(self, url: str, sent: Callable[[], None] = lambda: None, **headers: str) -> None:
        self._url = url
        self._sent = sent
        self._headers = {"X-Auth-Token": ADMIN, **headers}

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        self._sent()
        # A server ends a connection that nobody uses, perhaps when we are just about to.
        answer = requests.request(
            method,
            f"{self._url}{path}",
            json=body,
            headers=self._headers,
            timeout=_REQUEST_SECONDS,
        )
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A server as Nova shows it."""

    uuid: str
    status: str
    task: str | None
    node: str | None
    host: str | None
    fault: str | None

    @property
    def idle(self) -> bool:
        """Whether it has no task in progress."""
        return self.task is None and self.status != "BUILD"


class User:
    """Asks Nova's API and Neutron's; an admin, who also sees nodes and hosts."""

    def __init__(self, url: str, neutron: str) -> None:
        self._neutron = _Api(f"{neutron}/v2.0")
        # From 2.93 on Nova's own driver refuses any rebuild.
        self._nova = _Api(f"{url}/v2.1", **{"OpenStack-API-Version": "compute 2.92"})

    def services_up(self) -> set[tuple[str, str]]:
        """Binary and host of the services that are up."""
        services = self._nova("GET", "/os-services")["services"]
        return {(one["binary"], one["host"]) for one in services if one["state"] == "up"}

    def reported_at(self, host: str) -> str | None:
        """When a ``nova-compute`` has reported last; ``None``: there is none yet."""
        found = self._nova("GET", f"/os-services?binary=nova-compute&host={host}")["services"]
        return found[0]["updated_at"] if found else None

    def set_down(self, host: str, down: bool) -> None:
        """Say that a ``nova-compute`` is down, as an operator does who knows; or no more."""
        found = self._nova("GET", f"/os-services?binary=nova-compute&host={host}")["services"]
        self._nova("PUT", f"/os-services/{found[0]['id']}", {"forced_down": down})

    def compute_nodes(self) -> dict[str, set[str]]:
        """The nodes of each ``nova-compute`` that has any, by host."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in self._nova("GET", "/os-hypervisors/detail")["hypervisors"]:
            found[one["service"]["host"]].add(one["hypervisor_hostname"])
        return found

    def create_flavor(self, resource_class: str) -> None:
        """The only flavor: one node of a resource class."""
        size = {"vcpus": 8, "ram": 16384, "disk": 100}
        self._nova("POST", "/flavors", {"flavor": {"id": FLAVOR, "name": "metal", **size}})
        custom = f"CUSTOM_{resource_class.upper().replace('-', '_')}"
        specs = {f"resources:{name}": "0" for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
        specs[f"resources:{custom}"] = "1"
        self._nova("POST", f"/flavors/{FLAVOR}/os-extra_specs", {"extra_specs": specs})

    def boot(self, count: int, **more: Any) -> str:
        """Ask for some servers in one request; the uuid of the first one."""
        wanted = {"name": "server", "imageRef": IMAGE, "flavorRef": FLAVOR, "networks": "none"}
        asked = {"server": {**wanted, "min_count": count, **more}}
        uuid: str = self._nova("POST", "/servers", asked)["server"]["id"]
        return uuid

    def servers(self) -> list[Server]:
        return [
            Server(
                uuid=one["id"],
                status=one["status"],
                task=one["OS-EXT-STS:task_state"],
                node=one["OS-EXT-SRV-ATTR:hypervisor_hostname"],
                host=one["OS-EXT-SRV-ATTR:host"],
                fault=one.get("fault", {}).get("message"),
            )
            for one in self._nova("GET", "/servers/detail")["servers"]
        ]

    def wait_for_servers(self, what: str, done: Callable[[Server], bool]) -> list[Server]:
        """All servers, when each is as wanted."""
        seen: list[Server] = []

        def look() -> bool:
            seen[:] = self.servers()
            return all(map(done, seen))

        try:
            wait_for(what, look)
        except AssertionError as error:
            error.add_note("\n".join(map(str, seen)))
            raise
        return seen

    def hard_reboot(self, servers: Iterable[Server]) -> None:
        self._act(servers, {"reboot": {"type": "HARD"}})

    def stop(self, servers: Iterable[Server]) -> None:
        self._act(servers, {"os-stop": None})

    def _act(self, servers: Iterable[Server], action: dict[str, Any]) -> None:
        for server in servers:
            self.act(server.uuid, action)

    def act(self, uuid: str, action: dict[str, Any]) -> None:
        """Ask for an action on one server."""
        self._nova("POST", f"/servers/{uuid}/action", action)

    def create_key(self, name: str, public_key: str) -> None:
        """Let servers be given a key by its name."""
        self._nova("POST", "/os-keypairs", {"keypair": {"name": name, "public_key": public_key}})

    def create_port(self, mac: str, address: str, gateway: str) -> str:
        """A port with a static address, in its own subnet; the port's uuid."""
        subnet = {"cidr": f"{address}/24", "gateway_ip": gateway}
        made = self._neutron("POST", "/subnets", {"subnet": subnet})["subnet"]
        fixed = {"subnet_id": made["id"], "ip_address": address}
        port = {"tenant_id": ADMIN, "mac_address": mac, "fixed_ips": [fixed]}
        uuid: str = self._neutron("POST", "/ports", {"port": port})["port"]["id"]
        return uuid

    def delete(self, servers: Iterable[Server]) -> None:
        for server in servers:
            self._nova("DELETE", f"/servers/{server.uuid}")

    def results(self, server: Server, action: str) -> list[str | None]:
        """Return how the steps of a server's action ended, once Nova has recorded that."""

        def ended() -> list[str | None] | None:
            found = self._results(server, action)
            return found if found and all(found) else None

        return wait_for(f"the end of {action!r} of {server.uuid}", ended)

    def _results(self, server: Server, action: str) -> list[str | None]:
        path = f"/servers/{server.uuid}/os-instance-actions"
        found = self._nova("GET", path)["instanceActions"]
        return [
            event["result"]
            for one in found
            if one["action"] == action
            for event in self._nova("GET", f"{path}/{one['request_id']}")["instanceAction"][
                "events"
            ]
        ]


class Operator:
    """Looks at nodes and at what Placement thinks of them.

    :param sent: counts the requests.
    """

    def __init__(self, ironic: str, placement: str, sent: Counter[str]) -> None:
        def counting(name: str) -> Callable[[], None]:
            return lambda: sent.update([name])

        version = {"X-OpenStack-Ironic-API-Version": "latest"}
        self._ironic = _Api(f"{ironic}/v1", counting(figures.IRONIC), **version)
        version = {"OpenStack-API-Version": "placement 1.39"}
        self._placement = _Api(placement, counting(figures.PLACEMENT), **version)

    def create_nodes(
        self, ironic: real_ironic.RealIronic, count: int, resource_class: str, **more: Any
    ) -> list[str]:
        """Free nodes of a shard."""
        shard, seed = more["shard"], more["seed"]
        template = real_ironic.NodeTemplate(resource_class=resource_class, shard=shard)
        return real_ironic.create_nodes(
            ironic, count, template, name=f"node-{shard}-{{}}", seed=seed
        )

    def nodes(self) -> dict[str, dict[str, Any]]:
        """All nodes by uuid, with what says whether something is on them."""
        fields = (
            "uuid,provision_state,instance_uuid,instance_info,power_state,target_power_state,"
            "last_error,shard"
        )
        found = self._ironic("GET", f"/nodes?fields={fields}")
        return {node["uuid"]: node for node in found["nodes"]}

    def allocations(self, provider: str) -> dict[str, Any]:
        """Placement's allocations on a node, by server."""
        found: dict[str, Any] = self._placement(
            "GET", f"/resource_providers/{provider}/allocations"
        )["allocations"]
        return found

    def free_providers(self, resource_class: str) -> set[str]:
        """The nodes that Placement would give away."""
        custom = f"CUSTOM_{resource_class.upper().replace('-', '_')}"
        classes = self._placement("GET", "/resource_classes")["resource_classes"]
        if custom not in {known["name"] for known in classes}:
            # No nova-compute has reported a node yet.
            return set()
        found = self._placement("GET", f"/resource_providers?resources={custom}:1")
        return {provider["uuid"] for provider in found["resource_providers"]}

    def leaks(self, nodes: Iterable[str]) -> dict[str, Any]:
        """Nodes that are not as if nothing had ever been on them, and what they are like."""
        seen = self.nodes()
        found: dict[str, Any] = {}
        for uuid in nodes:
            node, allocations = seen[uuid], self.allocations(uuid)
            clean = node["provision_state"] == "available" and node["instance_uuid"] is None
            if not clean or node["instance_info"] or allocations:
                found[uuid] = {**node, "allocations": allocations}
        return found
