# SPDX-License-Identifier: Apache-2.0

"""What is read of services and cells: leases, and cells of one name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from nova import context, objects
from oslo_config import cfg

from ironic_virt import exceptions, standby
from ironic_virt.fleet import cells
from ironic_virt.fleet.deployment import Lease
from ironic_virt.fleet.options import ServiceOptions
from ironic_virt.fleet.reading import Reader


def test_a_silent_backend_is_asked_once_for_all_its_services(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    urls = {"a": "etcd3+http://e", "b": "redis://r", "c": "redis://r", "d": "", "e": "redis://r"}
    asked = []

    def age(url: str, ttl: int, host: str) -> float:
        asked.append(host)
        if url == "redis://r":
            raise exceptions.StandbyBackendFailed("no answer within 10 s")
        return 1.0

    monkeypatch.setattr(standby, "age", age)
    options = {
        host: ServiceOptions(host, written={"standby_backend_url": url} if url else {})
        for host, url in urls.items()
    }
    found = Reader(cfg.ConfigOpts(), options=options).leases()
    assert asked == ["a", "b"]
    assert found["a"] == Lease(age=1.0)
    assert found.keys() == {"a", "b", "c", "e"}
    assert all("no answer" in found[host].untold for host in "bce")


def test_two_cells_of_one_name_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    objects.register_all()
    mappings = [
        SimpleNamespace(name="cell", uuid=uuid, is_cell0=lambda: False) for uuid in ("b", "a")
    ]
    monkeypatch.setattr(objects.CellMappingList, "get_all", lambda context: mappings)
    monkeypatch.setattr(context, "set_target_cell", lambda context, mapping: None)
    monkeypatch.setattr(context, "get_admin_context", lambda: None)
    assert [(cell.uuid, cell.name) for cell in cells.cells()] == [("a", "cell"), ("b", "cell")]
    assert [cell.uuid for cell in cells.cells(["b"])] == ["b"]
    # A name that two have names both.
    assert len(cells.cells(["cell"])) == 2
