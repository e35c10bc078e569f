# SPDX-License-Identifier: Apache-2.0

"""A storm over a Nova of several processes, on the real Ironic: like ``tests/chaos``."""

import contextlib
import os
import random
import time

import pytest

from ironic_virt.testing.fault_proxy import FaultProxy
from tests import depth
from tests.chaos.weather import Deaths, Sky
from tests.nova_deployment.deployment import SHARDS, Deployment
from tests.nova_deployment.people import Server, User
from tests.nova_deployment.processes import wait_for

pytestmark = [pytest.mark.timeout(2400), pytest.mark.nightly]

SEED = int(os.environ.get("IRONIC_VIRT_TEST_SEED", "0"))
STORM = depth.choose(60.0, nightly=300.0)
"""Seconds of faults."""
_DOWN = 20.0
_PACE = 1.0
_MOST = 20
_STEP = 0.1


def test_a_storm_loses_no_server_and_leaves_nothing_behind(deployment, progress) -> None:
    began = time.monotonic()

    def now() -> float:
        return time.monotonic() - began

    lines: list[str] = []

    def told(line: str) -> None:
        lines.append(f"{now():.1f} {line}")

    with contextlib.ExitStack() as stack:
        # Other tests go on with it, also when this one fails.
        stack.callback(_let_computes_ask, deployment, deployment.ironic.url)
        proxy = stack.enter_context(FaultProxy(deployment.ironic.url, remember=1))
        _let_computes_ask(deployment, proxy.url)
        sky = Sky(random.Random(f"sky {SEED}"), proxy, now)
        computes = list(deployment.computes.values())
        deaths = Deaths(random.Random(f"deaths {SEED}"), "compute", computes, now, told, _DOWN)
        users = random.Random(f"users {SEED}")
        end, asked = now() + STORM, now()
        while now() < end:
            sky.act()
            deaths.act()
            if now() > asked:
                asked = now() + users.expovariate(1 / _PACE)
                # Nova refuses what can't be done to a server just now.
                with contextlib.suppress(AssertionError):
                    told(_ask(users, deployment.user))
            time.sleep(_STEP)
        sky.clear()
        deaths.end()
        try:
            _see_that_it_settles(deployment)
        except AssertionError as error:
            error.add_note("\n".join([f"seed {SEED}", *lines]))
            raise
    deployment.wait_until_nodes_are_free()
    faults = ", ".join(f"{what} {count}" for what, count in (sky.met + deaths.met).items())
    progress(f"seed {SEED}: {len(lines)} requests and deaths; {faults}")


def _let_computes_ask(deployment: Deployment, url: str) -> None:
    """Start each ``nova-compute`` again, with this URL of Ironic."""
    for host, shard in SHARDS.items():
        deployment.computes[host].stop()
        deployment.configure(host, host, shard=shard, endpoint_override=url)
        deployment.start_again(host)


def _ask(rng: random.Random, user: User) -> str:
    servers = user.servers()
    if not servers or (len(servers) < _MOST and rng.random() < 0.4):
        count = rng.randint(1, 3)
        user.boot(count)
        return f"boot {count}"
    server = rng.choice(servers)
    verb = rng.choice(("delete", "hard_reboot", "stop"))
    getattr(user, verb)([server])
    return f"{verb} {server.uuid}, {server.status}"


def _see_that_it_settles(deployment: Deployment) -> None:
    user = deployment.user
    servers = user.wait_for_servers("all servers at rest", _is_at_rest)
    nodes = deployment.operator.nodes()
    for server in servers:
        if server.status not in ("ACTIVE", "SHUTOFF"):
            continue
        assert server.node is not None
        node = nodes[server.node]
        assert (node["instance_uuid"], node["provision_state"]) == (server.uuid, "active"), server
        if server.status == "SHUTOFF":
            assert node["power_state"] == "power off", server
    carried = [node["instance_uuid"] for node in nodes.values() if node["instance_uuid"]]
    assert len(set(carried)) == len(carried)
    # Nova gives up a server whose nova-compute dies in certain moments; it can be deleted again.
    for _ in range(5):
        user.delete(user.servers())
        wait_for("all servers gone or given up", lambda: all(map(_is_given_up, user.servers())))
        if not user.servers():
            break
    assert not user.servers()
    deployment.wait_for_no_leaks()


def _is_at_rest(server: Server) -> bool:
    # Nova's message that tells a nova-compute of a new server is lost with that.
    return server.idle or (server.status == "BUILD" and server.host is None)


def _is_given_up(server: Server) -> bool:
    return server.status == "ERROR" and server.task is None
