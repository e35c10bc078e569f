# SPDX-License-Identifier: Apache-2.0

"""From a request to a claim in the records: what a command does, and many at once.

The records hold so many free nodes and the compute services that have them, all up.
A *fresh* client is a process that has just found its command, read its options and
opened the database, as ``ironic-virt server create`` does; what is measured is its one
request: loading the scheduler, finding a node, and the transaction with the claim and
the instance.

In a *race*, several such processes ask for as many instances as there are nodes.  It
fails unless each instance gets a node and no node is given twice.
"""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.rounds import Figures
from benchmarks.scheduler_sides import KINDS, Node, fleet, sizes
from benchmarks.side import Side
from tests import databases

KINDS_OF_DATABASE = (databases.SQLITE, databases.MARIADB)
CLIENTS = 4
_NAMES = {databases.SQLITE: "SQLite", databases.MARIADB: "MariaDB"}
UNITS = {
    f"claim_{kind}{suffix}": f"seconds {what} from request to claim in a fresh process, {name}"
    for kind, name in _NAMES.items()
    for suffix, what in (("", "on the wall"), ("_cpu", "of the client's processor time"))
}


class Client:
    """A client's side: :class:`benchmarks.side.Side` runs it.

    :param path: of the ini file.
    :param first: of the instances that it asks for in a race.
    :param instances: how many those are.
    """

    def __init__(self, path: str, first: int = 0, instances: int = 1) -> None:
        from ironic_virt.cmd import server_create, shell
        from ironic_virt.compute import api, db
        from ironic_virt.conf import database

        # As in the command itself, which has been found before it asks for anything.
        application = shell.Shell()
        application.command_manager.find_command(["server", "create"])
        application.prepare_to_run_command(server_create.Create(application, None))
        self._api, self._db = api, db
        self._conf = database.load([path])
        self._numbers = range(first, first + instances)

    def ready(self) -> bool:
        """That it has been made."""
        return True

    def claim(self) -> dict[str, float]:
        """Seconds on the wall and of processor time of this process's first request."""
        with contextlib.closing(self._db.Database(self._conf).open()) as opened:
            used, begun = time.process_time(), time.perf_counter()
            client = self._api.Requests(self._conf, opened)
            (request,) = client.create(wanted(0))
            took, used = time.perf_counter() - begun, time.process_time() - used
        if request.node is None:
            raise AssertionError(f"no node: {request}")
        return {"wall": took, "cpu": used}

    def race(self) -> list[str]:
        """Ask for instances one after the other; their nodes."""
        with contextlib.closing(self._db.Database(self._conf).open()) as opened:
            client = self._api.Requests(self._conf, opened)
            made = [client.create(wanted(number)) for number in self._numbers]
        return [str(request.node) for (request,) in made]


def wanted(number: int) -> Any:
    """An instance with the exact sizes of a kind of nodes."""
    import uuid

    from ironic_virt import virt
    from ironic_virt.compute.db import records

    kind = number % KINDS
    vcpus, memory_mb, local_gb = sizes(kind)
    flavor = virt.Flavor(
        f"kind-{kind}",
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=local_gb,
        extra_specs={
            f"resources:CUSTOM_BAREMETAL_KIND_{kind}": "1",
            "trait:CUSTOM_NVME": "required",
            "capabilities:boot_mode": "uefi",
        },
    )
    return records.NewInstance(
        uuid=str(uuid.uuid4()), flavor=flavor, image=virt.ImageMeta("http://images.invalid/x")
    )


@contextlib.contextmanager
def filled(server: databases.Server, nodes: int) -> Iterator[str]:
    """Records of so many free nodes in their own database; the ini file that names it."""
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(server.fresh(directory))
        path = directory / "ironic-virt.conf"
        path.write_text(
            # The services of these records have no processes that would report.
            f"[DEFAULT]\nstate_path = {directory}\nservice_down_time = 86400\n"
            f"[database]\nconnection = {url}\n[scheduler]\nuse_baremetal_filters = true\n"
        )
        _fill(str(path), nodes)
        yield str(path)


def _fill(path: str, nodes: int) -> None:
    from ironic_virt.compute.db import Database, records
    from ironic_virt.conf import database

    opened = Database(database.load([path]))
    with contextlib.closing(opened.open(make=True)):
        reports: dict[str, list[records.ComputeNode]] = {}
        for node in fleet(nodes):
            reports.setdefault(node.host, []).append(report(node))
        for host, listed in reports.items():
            opened.services.register(
                host, version="0", incarnation=host, conductor_group=None, shard_key=None
            )
            opened.compute_nodes.save(host, listed)


def report(node: Node) -> Any:
    """What a service reports of a node that is free."""
    from ironic_virt.compute.db import records

    return records.ComputeNode(
        uuid=node.uuid,
        vcpus=node.vcpus,
        memory_mb=node.memory_mb,
        local_gb=node.local_gb,
        resource_class=node.resource_class,
        traits=node.traits,
        stats=node.stats,
    )


def fresh(
    server: databases.Server, nodes: int, rounds: int, progress: Callable[[str], None]
) -> list[Figures]:
    """Rounds of one claim by a fresh client each."""
    kind = server.kind
    progress(f"Writing the records of {nodes} nodes on {kind}")
    found: list[Figures] = []
    with filled(server, nodes) as path:
        for number in range(1, rounds + 1):
            with Side("benchmarks.claims:Client", path=path) as client:
                client.call("ready")
                took = client.call("claim")
            progress(
                f"{kind}, round {number} of {rounds}: {took['wall'] * 1000:.1f} ms to the claim, "
                f"{took['cpu'] * 1000:.1f} ms of them the client's processor time"
            )
            found.append({f"claim_{kind}": took["wall"], f"claim_{kind}_cpu": took["cpu"]})
    return found


def race(
    server: databases.Server, nodes: int, clients: int, progress: Callable[[str], None]
) -> dict[str, float]:
    """As many instances as nodes, asked for by several clients at once.

    :returns: how many clients, nodes and instances there were, and the seconds.
    :raises AssertionError: an instance got no node, or a node was given twice.
    """
    share = nodes // clients
    with filled(server, share * clients) as path, contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(
                Side("benchmarks.claims:Client", path=path, first=first, instances=share)
            )
            for first in range(0, share * clients, share)
        ]
        for side in sides:
            side.call("ready")
        begun = time.perf_counter()
        with ThreadPoolExecutor(clients) as pool:
            answers = pool.map(lambda side: side.call("race"), sides)
            given = [node for found in answers for node in found]
        took = time.perf_counter() - begun
        _check(path, given, share * clients)
    progress(
        f"{server.kind}: {clients} clients had {len(given)} instances in {took:.1f} s, "
        "no node twice"
    )
    return {"clients": clients, "instances": len(given), "seconds": round(took, 1)}


def _check(path: str, given: list[str], nodes: int) -> None:
    from ironic_virt.compute.db import Database
    from ironic_virt.conf import database

    twice = [node for node, times in Counter(given).items() if times > 1]
    with contextlib.closing(Database(database.load([path])).open()) as opened:
        claimed = {
            record.instance_uuid: record.uuid
            for record in opened.compute_nodes.list()
            if record.instance_uuid
        }
        instances = {record.uuid: record.node for record in opened.instances.list()}
    if twice or len(given) != nodes or instances != claimed or len(instances) != nodes:
        raise AssertionError(
            f"{len(given)} nodes given, {len(claimed)} claimed, {len(instances)} instances; "
            f"twice: {twice}"
        )
