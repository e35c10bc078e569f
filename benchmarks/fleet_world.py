# SPDX-License-Identifier: Apache-2.0

"""A deployment of Nova as its databases have it, with many nodes, for the tools for fleets.

MariaDB, Placement and the fake Ironic are real processes.  Nova's and Placement's rows are
written with SQL: no service made them, and none runs.  The fleet is sound: all three say
the same.
"""

from __future__ import annotations

import contextlib
import datetime
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests import databases
from tests.nova_deployment import configuration
from tests.nova_deployment.processes import Program, listens, wait_for
from tests.ports import reserved_port

HOSTS = tuple(f"compute-{letter}" for letter in "abcdef")
CLASSES = ("gold", "silver", "bronze")
TRAIT = "CUSTOM_NVME"
_ROWS = 2000
_BIN = Path(sys.prefix) / "bin"
_WSGI = Path(configuration.__file__).with_name("serve_wsgi.py")


def node_uuid(number: int) -> str:
    return str(uuid.UUID(int=(0xF1EE7 << 64) + number))


def server_uuid(number: int) -> str:
    """The uuid of the server on a node."""
    return str(uuid.UUID(int=(0x5E12 << 64) + number))


def is_taken(number: int) -> bool:
    """Whether a node has a server: every second has."""
    return number % 2 == 0


def resource_class(number: int) -> str:
    """The resource class of a node."""
    return CLASSES[number % len(CLASSES)]


def host(number: int) -> str:
    """The service that has a node."""
    return HOSTS[number // 2 % len(HOSTS)]


class World:
    """A context manager that runs it.

    :param directory: for files and logs.
    :param nodes: how many.
    :ivar conf: Nova's file.
    :ivar cell: the URL of the cell's database.
    :ivar ironic: the URL of Ironic.
    """

    def __init__(self, directory: Path, nodes: int) -> None:
        self._directory = directory
        self._nodes = nodes
        self._stack = contextlib.ExitStack()
        self.conf = directory / "nova.conf"
        self.cell = ""
        self.ironic = ""

    def __enter__(self) -> World:
        with contextlib.ExitStack() as stack:
            self._stack = stack
            self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def service_files(self) -> list[str]:
        """The arguments that name each service's file."""
        return [f"--service-conf={name}={self._directory / name}.conf" for name in HOSTS]

    def _start(self) -> None:
        enter = self._stack.enter_context
        server = enter(databases.server(databases.MARIADB))
        names = ("api", "cell0", "cell1", "placement")
        urls = {name: enter(server.fresh(self._directory)) for name in names}
        ports = {name: enter(reserved_port()) for name in ("placement", "ironic")}
        endpoints = configuration.Endpoints(
            broker="fake://",
            databases=urls,
            ironic=f"http://127.0.0.1:{ports['ironic']}",
            placement=f"http://127.0.0.1:{ports['placement']}",
            glance="http://127.0.0.1:1",
            neutron="http://127.0.0.1:1",
        )
        self.cell, self.ironic = urls["cell1"], endpoints.ironic
        self._write(endpoints)
        self._schemas(urls)
        placement = self._program(
            "placement",
            [
                sys.executable,
                "-P",
                str(_WSGI),
                "placement.wsgi.api",
                str(ports["placement"]),
                configuration.ADMIN,
            ],
            {"OS_PLACEMENT_CONFIG_DIR": str(self._directory)},
        )
        ironic = self._program(
            "ironic",
            [
                sys.executable,
                "-m",
                "benchmarks.fleet_world",
                str(ports["ironic"]),
                str(self._nodes),
            ],
            {"PYTHONPATH": str(Path(__file__).parents[1])},
        )
        for program, name in ((placement, "placement"), (ironic, "ironic")):
            wait_for(name, lambda name=name, program=program: _up(program, ports[name]))  # type: ignore[misc]
        # Placement makes its tables when it starts.
        self._map_hosts(urls["api"])
        self._fill_nova(urls["cell1"])
        self._fill_placement(urls["placement"])

    def _write(self, endpoints: configuration.Endpoints) -> None:
        controller = configuration.controller(endpoints, self._directory)
        controller["ironic"] = {
            "auth_type": "none",
            "endpoint_override": endpoints.ironic,
        }
        configuration.write(self.conf, controller)
        cell0 = controller | {"database": {"connection": endpoints.databases["cell0"]}}
        configuration.write(self._directory / "cell0.conf", cell0)
        configuration.write(self._directory / "placement.conf", configuration.placement(endpoints))
        for name in HOSTS:
            sections: configuration.Sections = {
                "DEFAULT": {
                    "compute_driver": "ironic_virt.IronicDriver",
                    "host": name,
                    "report_interval": "1",
                },
                "ironic": {"shard": name},
            }
            configuration.write(self._directory / f"{name}.conf", sections)

    def _schemas(self, urls: Mapping[str, str]) -> None:
        for file, *arguments in (
            ("nova.conf", "api_db", "sync"),
            ("nova.conf", "db", "sync", "--local_cell"),
            ("cell0.conf", "db", "sync", "--local_cell"),
            ("nova.conf", "cell_v2", "map_cell0", "--database_connection", urls["cell0"]),
            ("nova.conf", "cell_v2", "create_cell", "--name", "cell1"),
        ):
            command = [str(_BIN / "nova-manage"), "--config-file", str(self._directory / file)]
            subprocess.run(
                [*command, *arguments], check=True, capture_output=True, cwd=self._directory
            )

    def _program(self, name: str, command: Sequence[str], variables: Mapping[str, str]) -> Program:
        program = Program(
            name,
            command,
            directory=self._directory / name,
            logs=self._directory,
            variables={**variables, "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1"},
        )
        program.start()
        self._stack.callback(program.stop)
        return program

    # -- rows -----------------------------------------------------------------

    def _map_hosts(self, url: str) -> None:
        with _tables(url) as (connection, tables):
            cells = tables["cell_mappings"]
            cell = connection.execute(sa.select(cells.c.id).where(cells.c.name == "cell1"))
            number = cell.scalar_one()
            mappings = ({"host": name, "cell_id": number} for name in HOSTS)
            _insert(connection, tables["host_mappings"], mappings)

    def _fill_nova(self, url: str) -> None:
        numbers = range(self._nodes)
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        with _tables(url) as (connection, tables):
            _insert(
                connection,
                tables["services"],
                (
                    {
                        "id": n,
                        "uuid": str(uuid.uuid4()),
                        "host": name,
                        "deleted": 0,
                        "binary": "nova-compute",
                        "topic": "compute",
                        "report_count": 1,
                        "last_seen_up": now,
                        "version": 70,
                        "disabled": False,
                        "forced_down": False,
                    }
                    for n, name in enumerate(HOSTS, start=1)
                ),
            )
            zeros = dict.fromkeys(
                (
                    "vcpus",
                    "memory_mb",
                    "local_gb",
                    "vcpus_used",
                    "memory_mb_used",
                    "local_gb_used",
                ),
                0,
            )
            _insert(
                connection,
                tables["compute_nodes"],
                (
                    {
                        **zeros,
                        "id": n + 1,
                        "uuid": node_uuid(n),
                        "host": host(n),
                        "deleted": 0,
                        "hypervisor_hostname": node_uuid(n),
                        "hypervisor_type": "ironic",
                        "hypervisor_version": 1,
                        "cpu_info": "",
                        "service_id": n // 2 % len(HOSTS) + 1,
                    }
                    for n in numbers
                ),
            )
            _insert(
                connection,
                tables["instances"],
                (
                    {
                        "id": n + 1,
                        "uuid": server_uuid(n),
                        "host": host(n),
                        "deleted": 0,
                        "node": node_uuid(n),
                        "vm_state": "active",
                        "power_state": 1,
                        "project_id": "p",
                        "user_id": "u",
                        "cleaned": 0,
                    }
                    for n in numbers
                    if is_taken(n)
                ),
            )

    def _fill_placement(self, url: str) -> None:
        numbers = range(self._nodes)
        with _tables(url) as (connection, tables):
            classes = {f"CUSTOM_{name.upper()}": 20000 + i for i, name in enumerate(CLASSES)}
            _insert(
                connection,
                tables["resource_classes"],
                ({"id": number, "name": name} for name, number in classes.items()),
            )
            _insert(connection, tables["traits"], [{"id": 90000, "name": TRAIT}])
            _insert(connection, tables["projects"], [{"id": 9, "external_id": "p"}])
            _insert(connection, tables["users"], [{"id": 9, "external_id": "u"}])
            _insert(
                connection,
                tables["resource_providers"],
                (
                    {
                        "id": n + 1,
                        "uuid": node_uuid(n),
                        "name": node_uuid(n),
                        "generation": 1,
                        "root_provider_id": n + 1,
                    }
                    for n in numbers
                ),
            )
            of = {n: classes[f"CUSTOM_{resource_class(n).upper()}"] for n in numbers}
            _insert(
                connection,
                tables["inventories"],
                (
                    {
                        "resource_provider_id": n + 1,
                        "resource_class_id": of[n],
                        "total": 1,
                        "reserved": int(is_taken(n)),
                        "min_unit": 1,
                        "max_unit": 1,
                        "step_size": 1,
                        "allocation_ratio": 1.0,
                    }
                    for n in numbers
                ),
            )
            _insert(
                connection,
                tables["resource_provider_traits"],
                ({"resource_provider_id": n + 1, "trait_id": 90000} for n in numbers),
            )
            taken = [n for n in numbers if is_taken(n)]
            _insert(
                connection,
                tables["consumers"],
                (
                    {
                        "uuid": server_uuid(n),
                        "project_id": 9,
                        "user_id": 9,
                        "generation": 1,
                    }
                    for n in taken
                ),
            )
            _insert(
                connection,
                tables["allocations"],
                (
                    {
                        "resource_provider_id": n + 1,
                        "consumer_id": server_uuid(n),
                        "resource_class_id": of[n],
                        "used": 1,
                    }
                    for n in taken
                ),
            )


def _up(program: Program, port: int) -> bool:
    program.see_to_it()
    return listens(port)


@contextlib.contextmanager
def _tables(url: str) -> Iterator[tuple[sa.Connection, dict[str, sa.Table]]]:
    engine = sa.create_engine(url)
    try:
        metadata = sa.MetaData()
        deadline = time.monotonic() + 60
        while True:
            metadata.reflect(engine)
            if metadata.tables or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        with engine.begin() as connection:
            yield connection, dict(metadata.tables)
    finally:
        engine.dispose()


def _insert(connection: sa.Connection, table: sa.Table, rows: Any) -> None:
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    stamp = {"created_at": now} if "created_at" in table.columns else {}
    listed = [stamp | row for row in rows]
    for begin in range(0, len(listed), _ROWS):
        connection.execute(sa.insert(table), listed[begin : begin + _ROWS])


def _serve_ironic(port: int, nodes: int) -> None:
    """The fake Ironic, until this process ends."""
    from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer, RealClock

    fake = FakeIronic(clock=RealClock(), max_limit=1000, journal_size=100)
    for number in range(nodes):
        taken = is_taken(number)
        fake.add_node(
            uuid=node_uuid(number),
            ports=0,
            resource_class=resource_class(number),
            traits=[TRAIT],
            shard=host(number),
            instance_uuid=server_uuid(number) if taken else None,
            provision_state="active" if taken else "available",
            power_state="power on" if taken else "power off",
        )
    server = FakeIronicServer(fake, port=port).start()
    try:
        while True:
            time.sleep(3600)
    finally:
        server.stop()


if __name__ == "__main__":
    _serve_ironic(*(int(argument) for argument in sys.argv[1:]))
