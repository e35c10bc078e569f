# SPDX-License-Identifier: Apache-2.0

"""Refreshes that overtake each other."""

import threading
from collections.abc import Collection
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ironic_virt import conf, exceptions, virt
from ironic_virt.baremetal.http.versions import Microversion, ServerVersions
from ironic_virt.baremetal.inventory.snapshot import Snapshot
from ironic_virt.baremetal.node import Node
from ironic_virt.sharding.ownership import Ownership


class Service(virt.VirtAPI):
    """A host that is alone."""

    @property
    def host(self) -> str:
        return "compute1"

    def live_hosts(self) -> Collection[str]:
        return ["compute1"]

    def owned_instance_uuids(self) -> Collection[str]:
        return []

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        return None


class Away:
    """An Ironic that answers nobody until so many ask at the same time."""

    def __init__(self, count: int) -> None:
        self._all = threading.Barrier(count)

    @property
    def versions(self) -> ServerVersions:
        self._all.wait(10)
        raise exceptions.IronicUnreachable("connection refused")


def test_all_who_come_while_ironic_is_away_wait_for_it_together(tmp_path: Path) -> None:
    path = tmp_path / "test.conf"
    path.write_text("[ironic]\nauth_type = none\nendpoint_override = http://ironic.test\n")
    client: Any = Away(4)
    ownership = Ownership(conf.load([str(path)]), Service(), client)
    with futures.ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(ownership.adopt) for _ in range(4)]
    assert {type(one.exception()) for one in asked} == {exceptions.IronicUnreachable}


def test_an_older_list_does_not_undo_a_newer_one(tmp_path: Path) -> None:
    path = tmp_path / "test.conf"
    path.write_text("[ironic]\nauth_type = none\nendpoint_override = http://ironic.test\n")
    client: Any = SimpleNamespace(
        versions=ServerVersions(Microversion(1, 1), Microversion(1, 115))
    )
    ownership = Ownership(conf.load([str(path)]), Service(), client)
    newer = Snapshot.of([Node(uuid="n1"), Node(uuid="n2")], taken_at=2.0)
    older = Snapshot.of([Node(uuid="n1")], taken_at=1.0)
    assert ownership.settle(newer).nodes == {"n1", "n2"}
    assert ownership.settle(older).nodes == {"n1", "n2"}
    assert ownership.settle(Snapshot.of([], taken_at=2.5)).nodes == frozenset()
