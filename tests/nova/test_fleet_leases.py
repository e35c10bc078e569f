# SPDX-License-Identifier: Apache-2.0

"""Whose lease is looked at, and what is known of it."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from ironic_virt import exceptions, standby
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
