# SPDX-License-Identifier: Apache-2.0

"""Several compute services whose nodes Ironic picks, and the records that they share.

Each has a driver of its own, loaded from a file.  What it says of its pools is read as a
scheduler reads it, and compared with what an operator sees in Ironic.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ironic_virt import conf, virt
from ironic_virt.virt import NodeInventory
from tests.functional.compute.processes import wait_for
from tests.integration.services import Operator, Service


class Records:
    """What all services know of each other.

    :ivar live: the hosts that are up.
    :ivar hosts: the host of each instance, by uuid.
    :ivar places: the compute node of each instance, by uuid.
    """

    def __init__(self) -> None:
        self.live: set[str] = set()
        self.hosts: dict[str, str] = {}
        self.places: dict[str, str] = {}


class _Service(Service):
    """A compute service with records."""

    def __init__(self, config: Path, records: Records) -> None:
        self._host = str(conf.load([str(config)]).host)
        self._records = records
        super().__init__(config)

    @property
    def host(self) -> str:
        return self._host

    def live_hosts(self) -> Collection[str]:
        return self._records.live | {self._host}

    def owned_instance_uuids(self) -> Collection[str]:
        return {uuid for uuid, host in self._records.hosts.items() if host == self._host}

    def instance_places(self) -> Mapping[str, str]:
        return {uuid: self._records.places[uuid] for uuid in self.owned_instance_uuids()}

    def instance_hosts(self, uuids: Collection[str]) -> Mapping[str, str]:
        return {one: host for one, host in self._records.hosts.items() if one in uuids}

    def existing_instances(self, uuids: Collection[str]) -> Collection[str]:
        return self._records.hosts.keys() & set(uuids)


class Cloud:
    """The services of a site.

    :param classes: the resource classes that are looked at.
    :param options: of ``[ironic]``, by host.
    """

    def __init__(
        self,
        directory: Path,
        url: str,
        operator: Operator,
        classes: Collection[str],
        options: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.operator = operator
        self.classes = sorted(classes)
        self.records = Records()
        self.services: dict[str, _Service] = {}
        self.instances: dict[str, virt.Instance] = {}
        self._configs = {}
        for host, more in options.items():
            lines = ["[DEFAULT]", f"host = {host}", "[ironic]", "auth_type = none"]
            lines += [f"endpoint_override = {url}", "node_selection = ironic"]
            lines.append("inventory_full_resync_period = 0")
            lines += [f"{name} = {value}" for name, value in more.items()]
            self._configs[host] = directory / f"{host}.conf"
            self._configs[host].write_text("\n".join(lines) + "\n")
            self.start(host)

    def start(self, host: str) -> None:
        """Start a service, for the first time or again."""
        self.records.live.add(host)
        self.services[host] = _Service(self._configs[host], self.records)

    def stop(self, host: str) -> None:
        """Let a service go down; its instances stay where they are."""
        self.services.pop(host).driver.cleanup_host()
        self.records.live.discard(host)

    def stop_all(self) -> None:
        for host in list(self.services):
            self.stop(host)

    # -- what is done ---------------------------------------------------------

    def boot(self, host: str, resource_class: str) -> virt.Instance:
        """Have an instance built by a service; it gets a node, and nothing is deployed."""
        wanted = {f"resources:CUSTOM_{resource_class.upper().replace('-', '_')}": "1"}
        instance = virt.Instance(
            str(uuid.uuid4()),
            "one",
            virt.Flavor("bm", extra_specs=wanted),
            host=host,
            node=f"{resource_class}~{host}",
        )
        self.instances[instance.uuid] = instance
        self.records.hosts[instance.uuid] = host
        self.records.places[instance.uuid] = instance.node or ""
        self.services[host].driver.prepare_for_spawn(instance)
        return instance

    def delete(self, instance: virt.Instance) -> None:
        """Delete an instance of a service that is up."""
        host = self.records.hosts[instance.uuid]
        self.services[host].destroy(instance)

        def carriers() -> list[Any]:
            path = f"/nodes?instance_uuid={instance.uuid}&fields=uuid"
            found: list[Any] = self.operator.request("GET", path)["nodes"]
            return found

        wait_for("the node's release", lambda: not carriers())
        for known in (self.records.hosts, self.records.places, self.instances):
            del known[instance.uuid]

    # -- what is seen ---------------------------------------------------------

    def refresh(self) -> dict[str, dict[str, NodeInventory]]:
        """What each service that is up says of each resource class, after a refresh of all."""
        found: dict[str, dict[str, NodeInventory]] = {}
        for host, service in self.services.items():
            names = service.driver.get_available_nodes(refresh=True)
            pools = {name: service.driver.get_inventory(name) for name in names}
            found[host] = {
                one.resource_class or "": one
                for one in pools.values()
                if one.resource_class in self.classes
            }
        return found

    def used(self, host: str, resource_class: str) -> int:
        """How many instances the records have in a pool, as Placement counts them."""
        pool = f"{resource_class}~{host}"
        return sum(place == pool for place in self.records.places.values())

    def free(self, resource_class: str, host: str, said: NodeInventory | None) -> int:
        """How many more servers a scheduler would put there."""
        if said is None:
            return 0
        used = self.used(host, resource_class)
        assert said.total >= used, f"{host} uses {used} of {said.total} {resource_class}"
        assert said.total - said.reserved >= used, (host, resource_class, said, used)
        return said.total - said.reserved - used

    def offered(self) -> dict[str, Counter[str]]:
        """How many nodes each service offers, by resource class and host."""
        said = self.refresh()
        return {
            one: Counter(
                {host: self.free(one, host, pools.get(one)) for host, pools in said.items()}
            )
            for one in self.classes
        }

    def in_ironic(self, resource_class: str) -> int:
        """How many nodes of a resource class are free."""
        fields = "resource_class,provision_state,instance_uuid,maintenance"
        nodes = self.operator.request("GET", f"/nodes?fields={fields}")["nodes"]
        return sum(
            node["resource_class"] == resource_class
            and node["provision_state"] == "available"
            and not node["instance_uuid"]
            and not node["maintenance"]
            for node in nodes
        )

    def check(self, *, everywhere: bool = False) -> dict[str, Counter[str]]:
        """That what is offered is what is free: together, or by each service alone.

        :returns: what is offered.
        """
        offered = self.offered()
        for one, hosts in offered.items():
            free = self.in_ironic(one)
            if everywhere:
                assert set(hosts.values()) == {free}, (one, hosts, free)
            else:
                assert sum(hosts.values()) == free, (one, hosts, free)
        return offered
