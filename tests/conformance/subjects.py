# SPDX-License-Identifier: Apache-2.0

"""The two Ironics that are compared."""

import contextlib
import functools
import json
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import requests

from ironic_virt.testing.fake_ironic import Durations, FakeIronic, FakeIronicServer, Settings
from tests.conformance.registry import SLOW, Pace
from tools import real_ironic
from tools.real_ironic.neutron import REFUSES

SECONDS = 2
"""What slow hardware of the fake takes for each thing that it is asked, on its own clock."""

REACH_SECONDS = 120.0
"""More than the real Ironic needs to tell its hardware to do something."""

SLOW_DURATIONS = Durations(
    deploy=SECONDS,
    undeploy=SECONDS,
    power=SECONDS,
    rescue=SECONDS,
    unrescue=SECONDS,
    inspect=SECONDS,
)

_LAST_ERRORS = {
    "deploy": "Deploy step deploy.deploy failed: {}.",
    "undeploy": "Failed to tear down: {}",
    "rescue": "Failed to rescue: {}",
    "unrescue": "Failed to unrescue: {}",
    "power": "{}",
}
"""What Ironic makes of an error of its hardware, by what was being done."""

# All that belongs to nodes; the conductor and what migrations need stay.
_KEPT_TABLES = {
    "alembic_version",
    "conductors",
    "conductor_hardware_interfaces",
    "sqlite_sequence",
}


class RealSubject:
    """A real Ironic on SQLite, whose database file is the way behind the API's back."""

    runs_programs = True

    def __init__(self, ironic: real_ironic.RealIronic) -> None:
        self._ironic = ironic
        self.newest = newest_version(ironic.environment)
        self._path = ironic.database_url.removeprefix("sqlite:///")
        self._is_reached: Callable[[], bool] = bool
        with self._database() as database:
            # Ironic 24.1 (2024.1) goes on reading after it has listed the history of a node,
            # until its garbage is collected.  That must not keep anybody from writing.
            database.execute("PRAGMA journal_mode = WAL")

    @property
    def url(self) -> str:
        return self._ironic.url

    def reset(self) -> None:
        with self._database() as database:
            tables = {
                name
                for (name,) in database.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table'"
                )
            }
            for table in sorted(tables - _KEPT_TABLES):
                database.execute(f"DELETE FROM {table}")

    def set_node(self, node: str, values: Mapping[str, Any]) -> None:
        # As the fake one does it: whoever changes a row puts the time to it.
        columns: dict[str, Any] = {"updated_at": "2026-01-01 00:00:00.000000"}
        columns |= {
            name: json.dumps(value) if isinstance(value, dict | list) else value
            for name, value in values.items()
        }
        with self._database() as database:
            known = {name for _, name, *_ in database.execute("PRAGMA table_info(nodes)")}
            assert columns.keys() <= known, f"nodes have no {columns.keys() - known}"
            changes = ", ".join(f"{name} = ?" for name in columns)
            done = database.execute(
                f"UPDATE nodes SET {changes} WHERE uuid = ?",
                (*columns.values(), node),
            )
            assert done.rowcount == 1, f"no node {node}"

    def kept_instance_info(self, node: str) -> Mapping[str, Any]:
        with self._database() as database:
            query = "SELECT instance_info FROM nodes WHERE uuid = ?"
            ((text,),) = database.execute(query, (node,))
        kept: Mapping[str, Any] = json.loads(text)
        return kept

    def fail(self, node: str, operation: str, error: str) -> None:
        self.set_node(node, {"driver_info": {"fails": {operation: error}}})

    def refuse_vif(self, vif: str) -> None:
        url = f"{self._ironic.neutron_url}/v2.0/ports/{vif}"
        change = {"port": {REFUSES: "binding:vnic_type"}}
        requests.put(url, json=change, timeout=60).raise_for_status()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    @contextlib.contextmanager
    def held_hardware(self) -> Iterator[None]:
        with self._ironic.held_hardware() as self._is_reached:
            yield

    def wait_for_hardware(self) -> None:
        deadline = time.monotonic() + REACH_SECONDS
        while not self._is_reached():
            assert time.monotonic() < deadline, "the hardware was not told to do anything"
            time.sleep(0.02)

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=30)
        try:
            connection.execute("PRAGMA synchronous = OFF")
            with connection:
                yield connection
        finally:
            connection.close()


@contextlib.contextmanager
def real_subject(
    pace: Pace, environment: real_ironic.IronicEnvironment, progress: real_ironic.Progress
) -> Iterator[RealSubject]:
    """Run a real Ironic of the wanted pace."""
    slow = dict.fromkeys(("deploy", "power", "rescue", "inspect"), real_ironic.HELD)
    options = real_ironic.Options(
        delays=slow if pace == SLOW else {},
        # By default a request waits three seconds for a lock before it is refused.
        # What looks after nodes by itself would find the states that checks make up.
        overrides={
            "conductor": {
                "node_locked_retry_attempts": "1",
                "check_provision_state_interval": "0",
                "check_allocations_interval": "0",
            }
        },
    )
    with real_ironic.RealIronic(options, environment=environment, progress=progress) as ironic:
        yield RealSubject(ironic)


class FakeSubject:
    """A fake Ironic over HTTP, on a clock that only :meth:`wait` moves."""

    runs_programs = False

    def __init__(self, pace: Pace, newest: str) -> None:
        self.newest = newest
        major, minor = newest.split(".")
        self._settings = Settings(
            durations=SLOW_DURATIONS if pace == SLOW else Durations(),
            max_version=(int(major), int(minor)),
        )
        self._fake = FakeIronic(self._settings)
        self.url = ""

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Be the application of one server, whichever fake is behind it."""
        return self._fake(environ, start_response)

    def reset(self) -> None:
        self._fake = FakeIronic(self._settings)

    def set_node(self, node: str, values: Mapping[str, Any]) -> None:
        self._fake.set_node(node, **values)

    def kept_instance_info(self, node: str) -> Mapping[str, Any]:
        row = self._fake.bm.store.nodes.get(node)
        assert row is not None, f"no node {node}"
        return row.instance_info

    def fail(self, node: str, operation: str, error: str) -> None:
        # The fake gets the whole text that Ironic would make of it.
        self._fake.fail_next(operation, _LAST_ERRORS[operation].format(error), node)

    def refuse_vif(self, vif: str) -> None:
        self._fake.refuse_vif(vif, "binding:vnic_type")

    def wait(self, seconds: float) -> None:
        self._fake.advance(seconds)

    def held_hardware(self) -> contextlib.AbstractContextManager[None]:
        # No time passes for it unless somebody waits.
        return contextlib.nullcontext()

    def wait_for_hardware(self) -> None:
        self.wait(SECONDS / 4)


@functools.cache
def newest_version(environment: real_ironic.IronicEnvironment) -> str:
    """The newest API version that an Ironic speaks."""
    code = "from ironic.api.controllers.v1 import versions as v; print(v.max_version_string())"
    command = [str(environment.python), "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def fake_subject(pace: Pace, newest: str) -> Iterator[FakeSubject]:
    """Run a fake Ironic of the wanted pace, whose API is as old as the real one's."""
    subject = FakeSubject(pace, newest)
    with FakeIronicServer(subject) as server:
        subject.url = server.url
        yield subject
