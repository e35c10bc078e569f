# SPDX-License-Identifier: Apache-2.0

"""A whole real Ironic, mostly API and conductor in one process, started and stopped by a test.

Each one has a temporary directory, a free port and its own database, so
several run side by side.  When the block ends, by any means, the server is
gone, and so are its directory and its database.  One thread at a time may
start and stop it; its API takes requests from any number.
"""

import contextlib
import dataclasses
import functools
import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests

from ironic_virt.testing.server_process import ServerProcess
from tools.real_ironic import bmc, configuration, errors
from tools.real_ironic import database as databases
from tools.real_ironic.conductors import Conductor
from tools.real_ironic.configuration import Options
from tools.real_ironic.environment import (
    IronicEnvironment,
    Progress,
    ensure_environment,
    ignore_progress,
)
from tools.real_ironic.neutron import StandInNeutron
from tools.real_ironic.ports import free_address, free_port
from tools.real_ironic.scripts import SCRIPTS
from tools.real_ironic.scripts.fake_hardware import HELD, REACHED

_POLL_SECONDS = 0.1
_PORT_TAKEN = "Address already in use"
# Its parent starts a process that crashed over and over again, so it never ends by itself.
_CRASHED = re.compile(r"Child \d+ exited with status [1-9]")
_ATTEMPTS = 3
_CONDUCTORS_VERSION = "1.49"


class RealIronic:
    """A context manager that runs Ironic on fake hardware.

    >>> with RealIronic() as ironic:
    ...     requests.get(f"{ironic.url}/v1/nodes").json()
    {'nodes': []}

    :param options: how it is to behave.
    :param database: ``sqlite``, for one request at a time, or ``mariadb``.
    :param environment: the virtualenv with Ironic; the user's own one, built if need be, when
        None.
    :param progress: called with what is being done while the user waits.
    :param start_seconds: how long it may take to come up.
    :param grace: seconds that it gets to stop in order.
    :ivar neutron_url: where the stand-in for Neutron is, if there is one.
    :ivar conductors: those that have their own process, see :class:`Options`.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        database: str = databases.SQLITE,
        environment: IronicEnvironment | None = None,
        progress: Progress = ignore_progress,
        start_seconds: float = 300.0,
        grace: float = 10.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.options = Options() if options is None else options
        self._database = database
        self._environment = environment
        self._progress = progress
        self._start_seconds = start_seconds
        self._grace = grace
        self._sleep = sleep
        self._stack = contextlib.ExitStack()
        self._process: ServerProcess | None = None
        self.conductors: list[Conductor] = []
        self._port = 0
        self._directory = Path()
        self.database_url = ""
        self.neutron_url: str | None = None

    @property
    def url(self) -> str:
        """The API's root, without a slash at the end and without a version."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def version(self) -> str:
        """The version of the Ironic that runs, ``39.0.0`` for instance."""
        return self.environment.version

    @property
    def environment(self) -> IronicEnvironment:
        """The virtualenv that it runs in."""
        if self._environment is None:
            self._environment = ensure_environment(progress=self._progress)
        return self._environment

    @property
    def process(self) -> ServerProcess:
        """The running server, or its API where conductors have their own processes."""
        if self._process is None:
            raise RuntimeError("this Ironic is not running")
        return self._process

    def log_tail(self, lines: int = 30) -> str:
        """The last lines of the server's log."""
        return self.process.log_tail(lines)

    @contextlib.contextmanager
    def held_hardware(self) -> Iterator[Callable[[], bool]]:
        """Let what has the delay ``held`` go on until the block ends.

        :returns: says whether anything has got there in the meantime.
        """
        held, reached = self._directory / HELD, self._directory / REACHED
        reached.unlink(missing_ok=True)
        held.touch()
        try:
            yield reached.exists
        finally:
            held.unlink()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and return when it answers and its conductor serves fake hardware.

        :raises EnvironmentBuildError: Ironic can't be installed.
        :raises DatabaseError: there is no such database.
        :raises StartError: it did not come up; the error shows the end of its log.
        """
        environment = self.environment
        self._progress(f"Starting Ironic {environment.version}")
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                self._start_once()
                break
            except errors.StartError as error:
                self.stop()
                # Somebody took the port between our look at it and Ironic's.
                if _PORT_TAKEN not in error.log_tail or not attempts_left:
                    raise
            except BaseException:
                self.stop()
                raise
        self._progress(f"Ironic {environment.version} answers at {self.url}")

    def stop(self) -> None:
        """Stop the server and remove all that it had.  May be called again."""
        self._stack.close()
        self._process = None
        self.conductors.clear()

    def _start_once(self) -> None:
        name = f"ironic-virt-real-ironic-{secrets.token_hex(4)}"
        directory = Path(tempfile.gettempdir(), name)
        # Before it is made: whoever is interrupted in between leaves nothing.
        self._stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.mkdir(mode=0o700)
        self.database_url = self._stack.enter_context(
            databases.database(self._database, self.environment, directory)
        )
        if self.options.vifs:
            self.neutron_url = self._stack.enter_context(StandInNeutron()).url
        place = configuration.Place(
            directory,
            self.options.port or free_port(),
            self.database_url,
            self.neutron_url,
            self._rpc_port(),
        )
        self._create_schema(place)
        self._port, self._directory = place.port, directory
        if self.options.conductors > 1:
            self._process = self._launch(self.options, place, "api")
            self._start_conductors(place)
        else:
            self._process = self._launch(self.options, place)
        self._wait(self._process, self._serves)
        for group in self.options.further_groups:
            options = dataclasses.replace(self.options, conductor_group=group)
            beside = self._beside(place, f"conductor-{group}", rpc_port=free_port())
            serves = functools.partial(self._serves_group, group)
            self._wait(self._launch(options, beside), serves)

    def _rpc_port(self) -> int | None:
        if self.options.conductors > 1:
            return configuration.RPC_PORT
        return free_port() if self.options.further_groups else None

    def _beside(
        self, place: configuration.Place, name: str, **changes: Any
    ) -> configuration.Place:
        """The place of another process with the same database."""
        own = place.directory / name
        own.mkdir()
        return dataclasses.replace(place, directory=own, port=free_port(), **changes)

    def _start_conductors(self, place: configuration.Place) -> None:
        for number in range(self.options.conductors):
            host = free_address(configuration.RPC_PORT)
            beside = self._beside(place, f"conductor-{number + 1}", rpc_host=host)
            launch = functools.partial(self._launch, self.options, beside, "conductor")
            self.conductors.append(Conductor(host, launch))
        for one in self.conductors:
            one.start()
        for one in self.conductors:
            self._wait(one.process, one.is_up)

    def _launch(
        self, options: Options, place: configuration.Place, command: str = "singleprocess"
    ) -> ServerProcess:
        environment = self.environment
        config = place.directory / "ironic.conf"
        config.write_text(configuration.render(options, place, environment.interfaces))
        process = ServerProcess(
            [
                *(str(environment.python), str(SCRIPTS / "launch_ironic.py")),
                *(options.max_api_version or "latest", command),
                *("--config-file", str(config)),
            ],
            directory=place.directory,
            log=place.directory / "ironic.log",
            grace=self._grace,
            env=None if options.own_bmcs else bmc.environment(bmc.install(place.directory)),
        )
        self._stack.callback(process.stop)
        return process

    def _wait(self, process: ServerProcess, serves: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._start_seconds
        while not serves():
            tail = process.log_tail()
            if process.exit_status is not None or _CRASHED.search(tail):
                raise errors.StartError("Ironic did not start. The end of its log:", tail)
            if time.monotonic() > deadline:
                raise errors.StartError(
                    f"Ironic did not come up in {self._start_seconds:.0f} s. The end of its log:",
                    tail,
                )
            self._sleep(_POLL_SECONDS)

    def _create_schema(self, place: configuration.Place) -> None:
        # Nothing of the wanted API version: this program does not know that release.
        options = dataclasses.replace(self.options, max_api_version=None)
        path = place.directory / "ironic-dbsync.conf"
        path.write_text(configuration.render(options, place, self.environment.interfaces))
        program = str(self.environment.program("ironic-dbsync"))
        try:
            # Whoever gives up meanwhile ends it, too: it would go on in a directory that is gone.
            subprocess.run(
                [program, "--config-file", str(path), "create_schema"],
                capture_output=True,
                text=True,
                check=True,
            )
        except subprocess.CalledProcessError as exc:
            raise errors.StartError("ironic-dbsync failed:", (exc.stderr or "")[-3000:]) from exc

    def _serves(self) -> bool:
        """Whether the API answers and a conductor has registered its hardware type."""
        try:
            answer = requests.get(f"{self.url}/v1/drivers", timeout=self._start_seconds)
            drivers = answer.json()["drivers"] if answer.ok else []
        except (requests.RequestException, ValueError):
            return False
        return any(driver["hosts"] for driver in drivers)

    def _serves_group(self, group: str) -> bool:
        """Whether a conductor of a group has registered; the API answers already."""
        answer = requests.get(
            f"{self.url}/v1/conductors",
            params={"fields": "conductor_group,alive"},
            headers={"X-OpenStack-Ironic-API-Version": _CONDUCTORS_VERSION},
            timeout=self._start_seconds,
        )
        conductors = answer.json()["conductors"] if answer.ok else []
        return any(one["conductor_group"] == group and one["alive"] for one in conductors)
