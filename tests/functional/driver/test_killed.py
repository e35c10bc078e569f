# SPDX-License-Identifier: Apache-2.0

"""A service that has Ironic pick the nodes is killed with SIGKILL, at every request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_virt.testing.fake_ironic import Durations, FakeIronicServer
from tests import deaths, depth
from tests.integration.services import Operator

DURATIONS = Durations(allocate=0.2, deploy=0.4, undeploy=0.1, clean=0.2)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[deaths.Site]:
    """A fake Ironic over HTTP, in real time and quick."""
    with FakeIronicServer(durations=DURATIONS) as server:

        def make_nodes(resource_class: str) -> list[str]:
            return server.fake.add_nodes(2, ports=1, resource_class=resource_class)

        def deployments(nodes: Sequence[str]) -> int:
            return sum(
                entry.status == 202
                and entry.body["target"] == "active"
                and entry.path.split("/")[3] in nodes
                for entry in server.fake.requests.matching("PUT", "/states/provision$")
            )

        ironic: Any = SimpleNamespace(url=server.url)
        yield deaths.Site(
            *(server.url, Operator(ironic), make_nodes, tmp_path, deployments),
            at_looks=depth.choose(False, True),
        )


@pytest.mark.long
def test_in_a_spawn(site: deaths.Site, show: Callable[[list[str]], None]) -> None:
    rows = deaths.killed_in_spawns(site)
    show(rows)
    assert len(rows) > 1 + 2 * 4, "before and after each change"


def test_in_a_destroy(site: deaths.Site, show: Callable[[list[str]], None]) -> None:
    rows = deaths.killed_in_destroys(site)
    show(rows)
    assert len(rows) > 1 + 2, "before and after the change"
