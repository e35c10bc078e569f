# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server dump create``, carried out by ``ironic-virt-compute``, killed or not."""

from __future__ import annotations

import pytest

from ironic_virt.compute.db import Database
from ironic_virt.testing.fake_ironic import Durations, FakeIronicServer
from tests import killed
from tests.functional.compute.commands import Commands
from tests.functional.compute.conftest import Serve
from tests.functional.compute.processes import ComputeProcess, built, wait_for

AT = "PUT /nodes/UUID/management/inject_nmi"


@pytest.fixture
def durations() -> Durations:
    """Short ones."""
    return Durations(deploy=0.1, undeploy=0.1, clean=0.1)


@pytest.fixture
def service(serve: Serve, db: Database) -> ComputeProcess:
    """A compute service that runs, and has a server ``web`` on a node that takes an NMI."""
    service, (node,) = serve(fields={"driver_info": {"takes_nmi": True}})
    built(db, node, display_name="web")
    return service


@pytest.fixture
def run(
    service: ComputeProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    return Commands(service.config, capsys, monkeypatch)


def injected(server: FakeIronicServer) -> int:
    """How many NMIs the hardware has had."""
    return [entry.status for entry in server.fake.requests.matching("PUT", "/inject_nmi$")].count(
        204
    )


def ended(db: Database) -> str:
    """How the last thing that was asked of ``web`` has ended: its error, or ``""``."""
    wait_for("its end", lambda: db.instances.get("web").task_state is None)
    fault = db.instances.get("web").fault
    return fault.message if fault else ""


def test_one_is_sent(run: Commands, server: FakeIronicServer, service: ComputeProcess) -> None:
    result = run("server", "dump", "create", "--wait", "web", "-f", "json")
    assert result.code == 0, result.err
    assert result.err.startswith("Sending an NMI to web ...\n")
    assert (result.json["name"], result.json["OS-EXT-STS:task_state"]) == ("web", None)
    assert injected(server) == 1
    assert "an NMI was injected" in service.text()


def test_a_service_that_is_killed_at_it_sends_one_when_it_is_back(
    run: Commands, server: FakeIronicServer, service: ComputeProcess, db: Database
) -> None:
    service.kill()
    run.ok("server", "dump", "create", "web")
    assert killed.run_compute(service.config, killed.Point(AT, after=True)).killed
    assert injected(server) == 1
    assert db.instances.get("web").task_state == "triggering-crash-dump"
    service.started()
    assert ended(db) == ""
    assert injected(server) == 2
