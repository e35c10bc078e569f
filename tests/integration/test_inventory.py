# SPDX-License-Identifier: Apache-2.0

"""The inventory of 3,000 nodes on the real Ironic and MariaDB, while its nodes change.

At each settled point it shows what a full list shows, but for nodes that went,
which the next sweep finds.
"""

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ironic_virt import conf
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer, KeystoneChannel
from ironic_virt.baremetal.inventory.cache import Inventory
from ironic_virt.baremetal.inventory.resync import Resync
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from tests.integration.services import SEEDS, Operator, new_nodes, write_conf
from tests.integration.stage import Stage
from tools import real_ironic

COUNT, PAGE = 3000, 200
OURS = NodeFilter(shard="many", conductor_group="")
SWEEP = 300.0


class Journal(KeystoneChannel):
    """Remembers what lists are asked for.

    :ivar lists: in short.
    """

    lists: list[str]

    def send(self, method: str, path: str, **how: Any) -> Answer:
        if path == "/nodes":
            params = how["params"]
            assert params["shard"] == "many"
            assert params["conductor_group"] == ""
            fields = str(params.get("fields", ""))
            if "detail" in params:
                self.lists.append("newest")
            elif params.get("sort_key") == "updated_at":
                self.lists.append("behind" if "marker" in params else "updated")
            elif "sort_key" in params and params.get("sort_dir") == "desc":
                self.lists.append("created")
            else:
                self.lists.append("full" if "traits" in fields else "sweep")
        return super().send(method, path, **how)


class Fleet:
    """The nodes, and who keeps them; its clock moves by hand, Ironic's by itself."""

    def __init__(self, ironic: real_ironic.RealIronic, directory: Any) -> None:
        self.ironic = ironic
        self.operator = Operator(ironic)
        (first,) = new_nodes(ironic, 1, shard="many", traits=["CUSTOM_A", "CUSTOM_B"])
        seed = next(SEEDS)
        # Changed hours ago, ten nodes a second, but for the last, which never were.
        began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=3)

        def differences(number: int) -> dict[str, Any]:
            moment = began + datetime.timedelta(seconds=number // 10)
            updated = moment.strftime("%Y-%m-%d %H:%M:%S") if number < COUNT - 100 else None
            return {"updated_at": updated, "resource_class": f"kind-{number % 7}"}

        self.nodes = [
            first,
            *real_ironic.clone_nodes(
                ironic,
                first,
                COUNT - 1,
                name=f"many-{seed}-{{}}",
                seed=seed,
                differences=differences,
            ),
        ]
        options = conf.load([str(write_conf(directory, ironic))])
        self.journal = Journal.from_conf(options)
        assert isinstance(self.journal, Journal)
        self.journal.lists = []
        self.client = IronicClient(self.journal)
        self.now = 0.0
        resync = Resync(
            self.client,
            lambda: OURS,
            full_period=1e9,
            sweep_period=lambda: SWEEP,
            clock=lambda: self.now,
        )
        self.inventory = Inventory(
            resync.list_nodes, changes=resync.changes, clock=lambda: self.now
        )
        self.inventory.refresh()

    def truth(self) -> dict[str, Node]:
        return {node.uuid: node for node in self.client.list_nodes(OURS)}

    def refreshed(self, seconds: float = 60) -> list[str]:
        """Refresh, a while after the last time; the lists that were asked for."""
        self.now += seconds
        self.journal.lists.clear()
        self.inventory.refresh()
        return list(self.journal.lists)

    def an_hour_passes(self) -> None:
        """What has been changed so far was changed an hour earlier."""
        self.operator.execute(("UPDATE nodes SET updated_at = updated_at - INTERVAL 1 HOUR", {}))

    def touch(self, nodes: Sequence[str], **columns: str) -> None:
        """Change many nodes at once, as conductors do it: each with the time of its change."""
        assignments = ", ".join(f"{name} = :{name}" for name in columns)
        now = datetime.datetime.now(datetime.UTC)
        # In the last three seconds, so that many share one.
        moments = [now - datetime.timedelta(seconds=second) for second in range(3)]
        statement = f"UPDATE nodes SET {assignments}, updated_at = :moment WHERE uuid = :uuid"
        rows = [
            columns | {"uuid": uuid, "moment": f"{moments[number % 3]:%Y-%m-%d %H:%M:%S}"}
            for number, uuid in enumerate(nodes)
        ]
        self.operator.execute(*((statement, row) for row in rows))


@pytest.fixture(scope="module")
def fleet(ironic_environment, progress, tmp_path_factory) -> Iterator[Fleet]:
    """On its own Ironic, whose pages are small."""
    options = real_ironic.Options(overrides={"api": {"max_limit": str(PAGE)}})
    with real_ironic.RealIronic(
        options,
        environment=ironic_environment,
        progress=progress,
        database=real_ironic.MARIADB,
    ) as ironic:
        yield Fleet(ironic, tmp_path_factory.mktemp("inventory"))


def test_what_the_api_changes_is_seen_without_a_full_list(fleet: Fleet) -> None:
    operator, nodes = fleet.operator, fleet.nodes
    operator.patch(nodes[1], resource_class="gold")
    operator.patch(nodes[-1], maintenance=True)
    operator.request("PUT", f"/nodes/{nodes[2]}/traits", {"traits": ["CUSTOM_C"]})
    operator.request("PUT", f"/nodes/{nodes[3]}/states/power", {"target": "power on"})
    operator.wait(nodes[3], lambda seen: seen["power_state"] == "power on")
    lists = fleet.refreshed()
    assert set(lists) <= {"newest", "updated", "behind", "created"}
    shown = fleet.inventory.snapshot.nodes
    assert dict(shown) == fleet.truth()
    assert shown[nodes[1]].resource_class == "gold"
    assert shown[nodes[-1]].maintenance
    assert shown[nodes[2]].traits == {"CUSTOM_C"}
    assert shown[nodes[3]].power_state == "power on"


def test_changes_on_several_pages_are_seen_without_a_full_list(fleet: Fleet) -> None:
    fleet.an_hour_passes()
    fleet.touch(fleet.nodes[100:1050], resource_class="touched")
    lists = fleet.refreshed()
    assert lists.count("behind") >= 950 // PAGE
    assert set(lists) == {"newest", "updated", "behind", "created"}
    shown = fleet.inventory.snapshot.nodes
    assert dict(shown) == fleet.truth()
    assert [node.resource_class for node in shown.values()].count("touched") == 950


def test_nodes_that_come_and_go_are_found(fleet: Fleet) -> None:
    operator, nodes = fleet.operator, fleet.nodes
    operator.request("DELETE", f"/nodes/{nodes[10]}")
    operator.patch(nodes[11], shard="others")
    seed = next(SEEDS)
    came = real_ironic.clone_nodes(fleet.ironic, nodes[20], 5, name=f"came-{seed}-{{}}", seed=seed)
    lists = fleet.refreshed()
    assert "full" not in lists
    assert "sweep" not in lists
    shown, truth = fleet.inventory.snapshot, fleet.truth()
    assert {uuid: shown.get(uuid) for uuid in truth} == truth
    assert set(shown.nodes) - truth.keys() == {nodes[10], nodes[11]}
    assert set(came) <= set(shown.nodes)
    lists = fleet.refreshed(SWEEP)
    assert lists.count("sweep") >= COUNT // PAGE
    assert "full" not in lists
    assert dict(fleet.inventory.snapshot.nodes) == fleet.truth()
    operator.patch(nodes[11], shard="many")
    assert "full" not in fleet.refreshed()
    assert dict(fleet.inventory.snapshot.nodes) == fleet.truth()


def test_a_marker_that_is_deleted_loses_nothing(fleet, monkeypatch) -> None:
    fleet.an_hour_passes()
    fleet.touch(fleet.nodes[1200:1700], resource_class="again")
    send, gone = Journal.send, []

    def send_after_deletion(self: Journal, method: str, path: str, **how: Any) -> Answer:
        marker = (how["params"] or {}).get("marker")
        if path == "/nodes" and marker and not gone:
            gone.append(marker)
            fleet.operator.request("DELETE", f"/nodes/{marker}")
        return send(self, method, path, **how)

    monkeypatch.setattr(Journal, "send", send_after_deletion)
    lists = fleet.refreshed()
    assert len(gone) == 1
    assert "full" not in lists
    shown, truth = fleet.inventory.snapshot, fleet.truth()
    assert {uuid: shown.get(uuid) for uuid in truth} == truth
    fleet.refreshed(SWEEP)
    assert dict(fleet.inventory.snapshot.nodes) == fleet.truth()


def test_shards_that_only_look_alike_to_the_database_are_two(stage: Stage) -> None:
    """MariaDB folds case and accents, and sees no blanks at the end."""
    ours = stage.node(shard="look-alike")
    for shard in ("Löok-alike", "look-alike "):
        stage.node(shard=shard)
    listed = stage.operator.request("GET", "/nodes?shard=look-alike")["nodes"]
    assert len(listed) == 3
    service = stage.another_service(shard_key="look-alike")
    assert list(service.driver.get_available_nodes()) == [ours]
    service.driver.get_available_nodes(refresh=True)
    assert list(service.driver.get_available_nodes()) == [ours]
