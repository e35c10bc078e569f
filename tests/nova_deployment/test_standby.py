# SPDX-License-Identifier: Apache-2.0

"""What becomes of servers when the active ``nova-compute`` of two is lost."""

import contextlib
import re
import signal
import time
from collections import Counter

import pytest
import requests

from ironic_virt.exit_codes import ExitCode, FleetExitCode
from ironic_virt.testing.fault_proxy import FaultProxy, Hang
from tests.backends.servers import Backend
from tests.nova_deployment.deployment import Deployment
from tests.nova_deployment.machine import new_machine
from tests.nova_deployment.places import (
    ACTIVE,
    HOST,
    TTL,
    WAITING,
    Begin,
    Place,
    all_active,
    boot_slowly,
    delete_all,
    deployed,
    finish,
)
from tests.nova_deployment.processes import wait_for
from tools.real_ironic.ports import free_port

pytestmark = [pytest.mark.usefixtures("free_host"), pytest.mark.timeout(2400)]

KILL, HANG, POWER_CUT = "kill", "hang", "power cut"
BUILDING, LATE = 10, 2


@pytest.mark.parametrize(
    ("leases", "loss"),
    [
        ("etcd", KILL),
        pytest.param("etcd", HANG, marks=pytest.mark.nightly),
        pytest.param("etcd", POWER_CUT, marks=pytest.mark.nightly),
        pytest.param("redis", KILL, marks=pytest.mark.nightly),
        pytest.param("redis", HANG, marks=pytest.mark.nightly),
    ],
    indirect=["leases"],
)
def test_after_a_power_cut_the_standby_finishes_each_build(
    deployment: Deployment, begin: Begin, loss: str
) -> None:
    user = deployment.user
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(new_machine()) if loss == POWER_CUT else None
        first = begin("first", ACTIVE, machine=machine)
        second = begin("second", WAITING)
        boot_slowly(deployment, [first, second], BUILDING)
        assert second.changes() == 0
        code, words = second.lease()
        assert code == 0, words
        assert re.search(r"compute-a: process \d+ on .* is active; it renewed its", words), words
        assert ", and 1 waits" in words
        if machine is not None:
            machine.cut_off()
        first.program.signal(signal.SIGSTOP if loss == HANG else signal.SIGKILL)
        with deployment.steps.step(f"from a {loss} to the first request that is served"):
            user.boot(LATE, host=HOST)
            began = time.monotonic()
            second.wait_for(ACTIVE)
            # The margin is for a machine that does other things besides.
            assert time.monotonic() - began < TTL + 10
            wait_for("the builds", lambda: all(server.host for server in user.servers()))
    servers = all_active(deployment)
    assert deployed([first, second]) == Counter(server.node for server in servers)
    assert len(servers) == BUILDING + LATE
    if loss == HANG:
        sent = first.changes()
        first.program.signal(signal.SIGCONT)
        assert first.wait_for_exit() == ExitCode.LEASE_LOST
        assert first.changes() == sent

    user.hard_reboot(servers[:2])
    user.stop(servers[2:4])
    servers = user.wait_for_servers("reboots and stops", lambda server: server.idle)
    assert Counter(server.status for server in servers) == {"ACTIVE": 10, "SHUTOFF": 2}
    delete_all(deployment)


@pytest.mark.nightly
def test_a_primary_cut_off_from_the_backend_ends_for_the_other(
    deployment: Deployment, begin: Begin, leases: Backend
) -> None:
    scheme, _, target = leases.url.partition("+")
    with FaultProxy(target) as cut:
        first = begin("cut-off", ACTIVE, f"{scheme}+{cut.url}")
        second = begin("connected", WAITING)
        boot_slowly(deployment, [first, second])
        cut.add(Hang())
        assert first.wait_for_exit() == ExitCode.LEASE_LOST
        sent = first.changes()
        second.wait_for(ACTIVE)
        finish(deployment, [first, second])
        assert first.changes() == sent


@pytest.mark.nightly
def test_a_process_without_the_option_is_seen_by_the_holder(
    deployment: Deployment, begin: Begin
) -> None:
    port = free_port()

    def foreign_reports() -> float:
        text = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
        (line,) = re.findall(r"^ironic_virt_foreign_reports (.+)$", text, re.MULTILINE)
        return float(line)

    holder = begin("holder", ACTIVE, metrics_port=port)
    wait_for("its reports", lambda: holder.lease()[0] == 0)
    assert foreign_reports() == 0
    other = begin("without", "Starting compute node", None)
    holder.wait_for("[lease-bypassed] Another process reports as nova-compute of compute-a")
    assert foreign_reports() >= 1
    wait_for("the finding", lambda: "lease-bypassed" in holder.lease()[1])
    assert not other.has_said("lease")
    assert holder.program.running


@pytest.mark.nightly
def test_without_the_backend_nobody_is_active_until_it_is_back(
    deployment: Deployment, places: list[Place], leases: Backend
) -> None:
    first, second = places
    boot_slowly(deployment, places)
    leases.kill()
    assert first.wait_for_exit() == ExitCode.LEASE_LOST
    sent = first.changes()
    first.start()
    for place in places:
        place.wait_for("The backend of the lease can't be used")
    assert (first.changes(), second.changes()) == (sent, 0)
    code, words = second.lease()
    assert (code, "lease-untold" in words) == (FleetExitCode.FOUND, True), words
    leases.start()
    wait_for("an active one", lambda: any(place.has_said(ACTIVE) for place in places))
    finish(deployment, places)
