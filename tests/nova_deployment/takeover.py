# SPDX-License-Identifier: Apache-2.0

"""How long nobody serves after the active ``nova-compute`` was killed.

``python -m tests.nova_deployment.takeover [NODES [SELECTION ...]]``, in the environment of
``make nova-deployment`` and with etcd, prints the seconds from the kill to the moment at which
the standby has got the lease, and to the one at which it begins what a user has asked for
meanwhile.  With pools, with a record for each node, and with Nova's own driver, which is
started again instead.
"""

import functools
import sys
import tempfile
import time
from pathlib import Path

from ironic_virt.testing.fault_proxy import FaultProxy
from tests.backends.servers import backend
from tests.nova_deployment.deployment import RESOURCE_CLASS, Deployment, over_real_ironic
from tests.nova_deployment.figures import Steps
from tests.nova_deployment.places import ACTIVE, WAITING, Place
from tests.nova_deployment.processes import wait_for
from tools import real_ironic

_SECONDS = 3600.0


def begun(deployment: Deployment, host: str, nodes: int) -> None:
    ironic = deployment.ironic
    (node,) = deployment.operator.create_nodes(
        ironic, 1, RESOURCE_CLASS, shard=host, seed=len(host)
    )
    real_ironic.clone_nodes(ironic, node, nodes - 1, name=f"{host}-{{}}", seed=len(host))


def loaded(deployment: Deployment, host: str) -> None:
    """Return when the host has its records, and a server on one of its nodes."""
    user = deployment.user
    # Before its first report nobody listens: RabbitMQ would drop a request.
    wait_for(f"a report of {host}", lambda: user.reported_at(host), _SECONDS)
    deployment.discover_hosts()
    user.boot(1, host=host)
    servers = user.wait_for_servers("a server", lambda one: one.idle)
    assert [server.status for server in servers] == ["ACTIVE"], servers


def served(deployment: Deployment) -> None:
    """Return when the server that was asked for last has got a node."""
    user = deployment.user
    wait_for("the build", lambda: all(one.host for one in user.servers()), _SECONDS)


def emptied(deployment: Deployment) -> None:
    """Delete the servers."""
    user = deployment.user
    user.delete(user.wait_for_servers("the server", lambda one: one.idle))
    wait_for("no server", lambda: not user.servers())


def measure(deployment: Deployment, nodes: int, selection: str, url: str) -> tuple[float, float]:
    """Seconds to the lease, and to the first request that is served."""
    host, ironic = f"compute-{selection}", deployment.ironic.url
    begun(deployment, host, nodes)
    more = {"host": host, "shard": host, "node_selection": selection}
    with FaultProxy(ironic) as one, FaultProxy(ironic) as other:
        first = Place(deployment, f"{host}-1", one, url, **more)
        first.wait_for(ACTIVE)
        loaded(deployment, host)
        second = Place(deployment, f"{host}-2", other, url, **more)
        second.wait_for(WAITING)
        wait_for("what the standby learns", lambda: second.has_learned, _SECONDS)
        first.program.kill()
        began = time.monotonic()
        deployment.user.boot(1, host=host)
        second.wait_for(ACTIVE)
        leased = time.monotonic() - began
        served(deployment)
        seconds = time.monotonic() - began
        emptied(deployment)
        second.program.kill()
    return leased, seconds


def measure_in_tree(deployment: Deployment, nodes: int) -> float:
    """Seconds to the first request that is served, where it is started again at once."""
    host = "compute-in-tree"
    begun(deployment, host, nodes)
    program = deployment.start_compute(host, host, "ironic.IronicDriver", shard=host)
    loaded(deployment, host)
    program.kill()
    began = time.monotonic()
    deployment.user.boot(1, host=host)
    program.start()
    served(deployment)
    seconds = time.monotonic() - began
    emptied(deployment)
    program.kill()
    return seconds


tell = functools.partial(print, flush=True)


def main(nodes: int = 1000, *selections: str) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="ironic-virt-takeover-") as directory,
        backend("etcd") as etcd,
        over_real_ironic(
            Path(directory), real_ironic.Options(), nodes=1, steps=Steps(), progress=tell
        ) as deployment,
    ):
        for selection in selections or ("ironic", "scheduler"):
            leased, seconds = measure(deployment, nodes, selection, etcd.url)
            tell(f"{nodes} nodes, {selection}: lease {leased:.1f} s, served {seconds:.1f} s")
        seconds = measure_in_tree(deployment, nodes)
        tell(f"{nodes} nodes, Nova's own driver, started again: served {seconds:.1f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *sys.argv[2:])
