# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet`` in the real Nova, over the fake Ironic."""

import contextlib
import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from nova import context
from nova.db.main import api as main_db
from nova.db.main import models

from ironic_virt.cmd import fleet
from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.fleet import nova_conf
from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer, RealClock
from tests import root_logger
from tests.nova import deployment
from tests.nova.services import Services


class Fleet(Services):
    """Base class of scenarios with several compute services and the command.

    :ivar fake: Ironic.
    """

    given = None

    def setUp(self) -> None:
        super().setUp()
        self.start_nova(self.provide_ironic())
        self._loads = 0
        # Everybody is in this process, and answers at once or never.
        self.stub_out("ironic_virt.fleet.ping.SECONDS", 1.0)
        self.stub_out("ironic_virt.fleet.nova_conf.load", self._load)
        assert nova_conf
        self._files = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self._hosts: list[str] = []
        self.services: dict[str, Any] = {}

    def _load(self, files: Any, directories: Any) -> Any:
        # Nova's configuration can't be loaded again in a process.
        self._loads += 1
        assert self._loads == 1
        return deployment.CONF

    def provide_ironic(self) -> Any:
        """The Ironic of the scenario."""
        self.fake = FakeIronic(clock=RealClock())
        server = FakeIronicServer(self.fake)
        server.start()
        self.addCleanup(server.stop)
        return server

    def make_nodes(self, count: int, **fields: Any) -> list[str]:
        """Free nodes."""
        fields.setdefault("resource_class", deployment.RESOURCE_CLASS)
        return self.fake.add_nodes(count, **fields)

    def start_compute(self, host: str, driver: str | None = None, **options: Any) -> Any:
        """Start a compute service, and write its file."""
        lines = [f"{name} = {value}" for name, value in options.items()]
        name = deployment.DRIVERS[driver or self.driver]
        self._files.joinpath(f"{host}.conf").write_text(
            f"[DEFAULT]\nhost = {host}\ncompute_driver = {name}\n[ironic]\n"
            + "\n".join([*lines, ""])
        )
        if host not in self._hosts:
            self._hosts.append(host)
        return super().start_compute(host, driver, **options)

    @property
    def service_files(self) -> list[str]:
        """The arguments that name the services' files."""
        return [f"--service-conf={host}={self._files / host}.conf" for host in self._hosts]

    def fleet(self, *arguments: str, code: int = 0) -> Any:
        """Run the command; what it has printed as JSON.

        :param code: the exit code that it must have.
        """
        if {"apply", "undo"} & set(arguments[:1]) and "--dry-run" not in arguments:
            arguments = (*arguments, "--yes")
        rows = self.run_fleet(arguments)
        assert self.code == code, (self.code, rows, self.said)
        return rows

    def run_fleet(self, arguments: Sequence[str]) -> Any:
        """Run the command, ``code`` is its exit code; what it has printed as JSON."""
        self._loads = 0
        printed, said = io.StringIO(), io.StringIO()
        with (
            root_logger.kept(),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(said),
        ):
            try:
                self.code: Any = fleet.main([*arguments, "-f", "json"])
            except SystemExit as ended:
                self.code = ended.code
            finally:
                self.said = said.getvalue()
        return json.loads(printed.getvalue()) if printed.getvalue() else None

    def stop(self, *hosts: str) -> None:
        """Stop services, and force them down."""
        for host in hosts:
            self.services[host].stop()
            self.force_down(host)

    def check(self) -> dict[str, str]:
        """What the doctor finds: the objects by code; ``rows`` has all of it."""
        self.rows = self.run_fleet(["check", *self.service_files])
        assert self.code == (FleetExitCode.FOUND if self.rows else FleetExitCode.SOUND), (
            self.code,
            self.rows,
            self.said,
        )
        return {one["Code"]: one["Object"] for one in self.rows}

    def in_cell(self, table: Any, where: Any, **values: Any) -> None:
        """Change rows behind Nova's back."""
        admin = context.get_admin_context()
        with main_db.get_context_manager(admin).writer.using(admin) as session:
            session.execute(sa.update(table).where(where).values(**values))

    def set_record_host(self, node: str, host: str) -> None:
        """Give a node's compute node record to another host."""
        self.in_cell(models.ComputeNode, models.ComputeNode.hypervisor_hostname == node, host=host)

    def placement_call(self, method: str, path: str, body: Any = None) -> Any:
        """A request to Placement."""
        arguments = (path,) if body is None else (path, body)
        answer = getattr(self.placement, method)(*arguments, version="1.28")
        assert answer.status < 300, (path, answer.body)
        return answer.body
