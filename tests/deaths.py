# SPDX-License-Identifier: Apache-2.0

"""What is left when a service that has Ironic pick the nodes is killed, request by request.

The story is the same on any Ironic.  A process is killed at its first request, at its
second, and so on, before it is sent and after it was answered, until it comes to its own
end; each time on nodes, and for a host, that nobody else has.  What becomes of the rest
is looked at from outside: by Ironic's API.
"""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ironic_virt import virt
from ironic_virt.driver.pools import names
from tests import killed
from tests.functional.compute.processes import wait_for
from tests.integration.services import Operator
from tests.killed import RecordedService

AT_ONCE = 12
"""How many stories go on at the same time; most of each is waiting."""

SPAWN_HEADING = (
    "killed in a spawn | Ironic has then | spawned again | destroyed "
    "| or: looked once, nobody wants it | looked twice"
)
DESTROY_HEADING = "killed in a destroy | Ironic has then | destroyed again"

_NUMBERS = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Site:
    """An Ironic, and what belongs to it.

    :ivar url: its API's address.
    :ivar operator: somebody else.
    :ivar make_nodes: makes two free nodes of a resource class that nobody else has.
    :ivar directory: for files.
    :ivar deployments: how often nodes were told to deploy, where that can be known.
    :ivar at_looks: also kill at requests that change nothing; Ironic can't tell a death there
        from one after the change before it, but for the time that has passed.
    """

    url: str
    operator: Operator
    make_nodes: Callable[[str], list[str]]
    directory: Path
    deployments: Callable[[Sequence[str]], int] | None = None
    at_looks: bool = True

    def tried(self, points: Sequence[killed.Point]) -> list[killed.Point]:
        """Those of a life where it is ended: at all, or the first, the changes and the last."""
        chosen = [one for one in points if self.at_looks or not one.request.startswith("GET ")]
        return list(dict.fromkeys([points[0], *chosen, points[-2]]))


class Place:
    """A host and two nodes that only it has use for."""

    def __init__(self, site: Site) -> None:
        number = next(_NUMBERS)
        self.host = f"dying{number}"
        self.operator = site.operator
        self._site = site
        self._class = f"dying-{number}"
        self.nodes = site.make_nodes(self._class)
        self._untouched = [self._trace(node) for node in self.nodes]
        self.config = site.directory / f"{self.host}.conf"
        self.config.write_text(
            f"[DEFAULT]\nhost = {self.host}\n[ironic]\nauth_type = none\n"
            f"endpoint_override = {site.url}\napi_retry_interval = 1\n"
            # Each refresh is a full one, and looks at the allocations.
            "node_selection = ironic\ninventory_full_resync_period = 0\n"
        )

    def instance(self) -> virt.Instance:
        """A new one that wants one of the nodes."""
        wanted = {f"resources:CUSTOM_{self._class.upper().replace('-', '_')}": "1"}
        flavor = virt.Flavor("bm", extra_specs=wanted)
        pool = names.pool_name(self.host, (self._class, frozenset()))
        return virt.Instance(str(uuid.uuid4()), "one", flavor, host=self.host, node=pool)

    def allocation(self, instance: virt.Instance) -> dict[str, Any] | None:
        """The instance's."""
        listed = self.operator.request("GET", "/allocations")["allocations"]
        return next((one for one in listed if one["uuid"] == instance.uuid), None)

    def carrier(self, instance: virt.Instance) -> dict[str, Any] | None:
        """The node that has the instance; never more than one."""
        nodes = [self.operator.node(node) for node in self.nodes]
        found = [node for node in nodes if node["instance_uuid"] == instance.uuid]
        assert len(found) <= 1, "double use"
        return found[0] if found else None

    def left(self, instance: virt.Instance) -> str:
        """What Ironic has of an instance, in words."""
        node, allocation = self.carrier(instance), self.allocation(instance)
        if node is None:
            return f"allocation {allocation['state']}" if allocation else "nothing"
        vifs = len(self.operator.vifs(node["uuid"]))
        told = ", told" if "image_source" in node["instance_info"] else ""
        words = f"node {node['provision_state']}{told}{f', {vifs} VIF' if vifs else ''}"
        return f"allocation {allocation['state']}, {words}" if allocation else words

    def is_deployed(self, instance: virt.Instance) -> bool:
        """Whether more has been done than to reserve a node and to write to it."""
        node = self.carrier(instance)
        return node is not None and node["provision_state"] != "available"

    def deployments(self) -> int | None:
        """How often our nodes were told to deploy."""
        return self._site.deployments(self.nodes) if self._site.deployments else None

    def check_nothing_is_left(self, instance: virt.Instance) -> None:
        """Neither a reservation, nor anything on the nodes."""
        # Ironic deletes an allocation after it has freed the node.
        wait_for("the allocation's end", lambda: self.allocation(instance) is None)
        for node in self.nodes:
            self.operator.wait_for_state(node, "available")
        for node, (before, vifs) in zip(self.nodes, self._untouched, strict=True):
            now, attached = self._trace(node)
            left = {key: now.get(key) for key in now | before if now.get(key) != before.get(key)}
            assert (left, attached) == ({}, vifs), (node, left, attached)

    def _trace(self, node: str) -> tuple[dict[str, Any], list[str]]:
        return self.operator.node(node), self.operator.vifs(node)


def killed_in_spawns(site: Site) -> list[str]:
    """Kill a service everywhere in a spawn.

    :returns: a table's rows.
    """
    place = Place(site)
    instance = place.instance()
    whole = killed.run(place.config, "spawn", instance)
    assert not whole.killed
    with RecordedService(place.config, [instance.uuid]).running() as service:
        service.destroy(instance)
    place.check_nothing_is_left(instance)
    return [SPAWN_HEADING, *_rows(site, _killed_in_a_spawn, whole)]


def killed_in_destroys(site: Site) -> list[str]:
    """Kill a service everywhere in a destroy.

    :returns: a table's rows.
    """
    place = Place(site)
    instance = place.instance()
    with RecordedService(place.config, [instance.uuid]).running() as service:
        service.spawn(instance)
    whole = killed.run(place.config, "destroy", instance)
    assert not whole.killed
    place.check_nothing_is_left(instance)
    return [DESTROY_HEADING, *_rows(site, _killed_in_a_destroy, whole)]


def _rows(
    site: Site, story: Callable[[Site, killed.Point], str | None], whole: killed.End
) -> list[str]:
    """A row for each request of a life that nothing ended, before it and after it."""
    points = site.tried(whole.points())
    with ThreadPoolExecutor(AT_ONCE) as threads:
        rows = dict(zip(points, threads.map(lambda one: story(site, one), points), strict=True))
    # How often it looks while it waits is never quite the same.
    missed = [one for one, row in rows.items() if row is None]
    assert all(one.request.startswith("GET ") for one in missed), missed
    return [row for row in rows.values() if row is not None]


def _killed_in_a_spawn(site: Site, at: killed.Point) -> str | None:
    place = Place(site)
    first = place.instance()
    if not killed.run(place.config, "spawn", first, at).killed:
        return None
    where = str(at)
    row = [where, place.left(first)]
    with RecordedService(place.config, [first.uuid]).running() as service:
        service.spawn(first)
        node = place.carrier(first)
        assert node is not None, where
        assert node["provision_state"] == "active", where
        assert node["allocation_uuid"] == first.uuid, where
        assert place.deployments() in (1, None), where
        neighbour = place.instance()
        service.known.add(neighbour.uuid)
        service.driver.prepare_for_spawn(neighbour)
        other = place.carrier(neighbour)
        assert other is not None, where
        assert other["uuid"] != node["uuid"], where
        row.append(place.left(first))
        service.destroy(neighbour)
        service.destroy(first)
    place.check_nothing_is_left(neighbour)
    place.check_nothing_is_left(first)
    row.append(place.left(first))

    # And if the instance is in nobody's records any more.
    second = place.instance()
    if not killed.run(place.config, "spawn", second, at).killed:
        return None
    there, deployed = place.left(second), place.is_deployed(second)
    with RecordedService(place.config).running() as service:
        service.driver.get_available_nodes(refresh=True)
        once = place.left(second)
        assert (once == "nothing") == (there == "nothing"), where
        service.driver.get_available_nodes(refresh=True)
        twice = place.left(second)
        # Whoever is on it may be at work; only a destroy says that nobody is.
        assert (twice != "nothing") == deployed, where
        if deployed:
            service.destroy(second)
            twice = "the same, until destroyed"
    place.check_nothing_is_left(second)
    return " | ".join([*row, once, twice])


def _killed_in_a_destroy(site: Site, at: killed.Point) -> str | None:
    place = Place(site)
    instance = place.instance()
    with RecordedService(place.config, [instance.uuid]).running() as service:
        service.spawn(instance)
    if not killed.run(place.config, "destroy", instance, at).killed:
        return None
    where = str(at)
    row = [where, place.left(instance)]
    with RecordedService(place.config, [instance.uuid]).running() as service:
        service.destroy(instance)
    place.check_nothing_is_left(instance)
    assert place.deployments() in (1, None), where
    return " | ".join([*row, place.left(instance)])
