# SPDX-License-Identifier: Apache-2.0

"""Each procedure as a story: the state before, the page, the state after.

The same stories run on the fake and on a real Ironic.
"""

import os
import signal
from collections.abc import Callable

from tests.functional.compute.processes import wait_for
from tests.functional.procedures.site import Failed, Site

MakeNode = Callable[..., str]
"""Makes a node in Ironic, by its name and its shard; returns its uuid."""

Story = Callable[[Site, MakeNode], None]


def peers(site: Site, names: list[str]) -> None:
    """Services that share their nodes by a hash ring, all up and agreed."""
    for name in names:
        site.configure(
            name, f"[DEFAULT]\nhost = {name}\n[ironic]\npeer_list = {','.join(names)}\n"
        )
    site.start(*names)


def shard(site: Site, name: str, key: str) -> None:
    """A service of a shard, up."""
    site.configure(name, f"[DEFAULT]\nhost = {name}\n[ironic]\nshard_key = {key}\n")
    site.start(name)


def wait_for_nodes(site: Site, nodes: list[str]) -> None:
    """Return when each node has a record."""

    def are_there() -> bool:
        try:
            return set(site.owners()) == set(nodes)
        except Failed:
            return False  # The service has not made the tables yet.

    wait_for("records of all nodes", are_there)


def instances_answer(site: Site, names: list[str], hosts: set[str]) -> None:
    """Check that the instances belong to these hosts and obey requests."""
    rows = site.read("ironic-virt server list --long")
    assert {row["Name"] for row in rows} == set(names)
    assert {row["Host"] for row in rows} <= hosts
    for name in names:
        site.run(f"ironic-virt server reboot --hard --wait {name}")
    rows = site.read("ironic-virt server list")
    assert {row["Status"] for row in rows} == {"ACTIVE"}


def peer_list_to_one_service(site: Site, make_node: MakeNode) -> None:
    nodes = [make_node(f"node-{number}") for number in range(8)]
    peers(site, ["compute-1", "compute-2", "compute-3"])
    wait_for_nodes(site, nodes)
    site.create(["web-1", "web-2"])
    site.follow("peer_list_to_one_service")
    assert set(site.owners().items()) == {(node, "ironic") for node in nodes}
    assert site.services() == {"ironic": "up"}
    instances_answer(site, ["web-1", "web-2"], {"ironic"})


def peer_list_to_shards(site: Site, make_node: MakeNode) -> None:
    racks = {
        make_node(f"{rack}-0{number}"): rack
        for rack in ("rack-a", "rack-b")
        for number in range(1, 4)
    }
    peers(site, ["compute-1", "compute-2"])
    wait_for_nodes(site, list(racks))
    site.create(["web-1", "web-2"])
    site.follow("peer_list_to_shards")
    assert site.owners() == racks
    assert site.services() == {"rack-a": "up", "rack-b": "up"}
    instances_answer(site, ["web-1", "web-2"], {"rack-a", "rack-b"})


def node_between_shards(site: Site, make_node: MakeNode) -> None:
    moving, staying, other = (
        make_node(name, shard=rack)
        for name, rack in (
            ("rack-a-01", "rack-a"),
            ("rack-a-02", "rack-a"),
            ("rack-b-01", "rack-b"),
        )
    )
    shard(site, "rack-a", "rack-a")
    shard(site, "rack-b", "rack-b")
    wait_for_nodes(site, [moving, staying, other])
    # All are taken, so that the node that moves has an instance.
    names = ["web-1", "web-2", "web-3"]
    site.create(names)
    site.follow("node_between_shards")
    assert site.owners() == {moving: "rack-b", staying: "rack-a", other: "rack-b"}
    assert site.services() == {"rack-a": "up", "rack-b": "up"}
    rows = site.read("ironic-virt server list --long")
    assert sorted(row["Host"] for row in rows) == ["rack-a", "rack-b", "rack-b"]
    instances_answer(site, names, {"rack-a", "rack-b"})


def shard_between_services(site: Site, make_node: MakeNode) -> None:
    nodes = [make_node(f"rack-a-0{number}", shard="rack-a") for number in range(1, 5)]
    shard(site, "compute-1", "rack-a")
    wait_for_nodes(site, nodes)
    site.create(["web-1"])
    site.follow("shard_between_services")
    assert set(site.owners().items()) == {(node, "rack-a") for node in nodes}
    assert site.services() == {"rack-a": "up"}
    instances_answer(site, ["web-1"], {"rack-a"})


def adding_nodes(site: Site, make_node: MakeNode) -> None:
    first = make_node("rack-a-01", shard="rack-a")
    new = make_node("rack-a-09", manageable=True)
    shard(site, "rack-a", "rack-a")
    wait_for_nodes(site, [first])
    site.follow("adding_nodes")
    assert site.owners() == {first: "rack-a", new: "rack-a"}
    # The second one can only be on the new node.
    site.create(["web-1", "web-2"])
    instances_answer(site, ["web-1", "web-2"], {"rack-a"})


def failover(site: Site, make_node: MakeNode) -> None:
    """The active process is not dead but hangs, and comes to afterwards."""
    nodes = [make_node(f"node-{number}") for number in range(3)]
    site.configure("ironic", "[DEFAULT]\nhost = ironic\n")
    site.start("ironic")
    wait_for_nodes(site, nodes)
    site.create(["web-1"])
    active = site.pid("ironic")
    site.hang(active)
    try:
        site.follow("failover")
        assert site.pid("ironic") != active
        instances_answer(site, ["web-1"], {"ironic"})
    finally:
        os.kill(active, signal.SIGCONT)
    wait_for("the former process's end", lambda: _is_gone(active))
    assert site.services() == {"ironic": "up"}
    assert set(site.owners().items()) == {(node, "ironic") for node in nodes}
    instances_answer(site, ["web-1"], {"ironic"})


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


STORIES = (
    peer_list_to_one_service,
    peer_list_to_shards,
    node_between_shards,
    shard_between_services,
    adding_nodes,
    failover,
)
