# SPDX-License-Identifier: Apache-2.0

"""A whole Nova, a process for each service, over a real or a fake Ironic.

The programs are those that ``pip install`` has put into this environment.  In the end all
processes are stopped, and their databases and messages removed.
"""

import contextlib
import dataclasses
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from tests import databases
from tests.nova_deployment import configuration, figures
from tests.nova_deployment.broker import broker
from tests.nova_deployment.fake_ironic import FakeIronicProcess
from tests.nova_deployment.figures import Steps
from tests.nova_deployment.machine import Machine
from tests.nova_deployment.people import Operator, User
from tests.nova_deployment.processes import Program, listens, wait_for
from tests.nova_deployment.stand_ins import StandInGlance
from tests.ports import reserved_port
from tools import real_ironic
from tools.real_ironic.neutron import StandInNeutron

RESOURCE_CLASS = "baremetal-gold"
SHARDS = {"compute-a": "a", "compute-b": "b"}
"""Each compute service over the real Ironic, and its shard."""

_SOME = 3
_APPLICATIONS = {"placement": "placement.wsgi.api", "nova-api": "nova.wsgi.osapi_compute"}
_DATABASES = ("api", "cell0", "cell1", "placement")


@dataclasses.dataclass(frozen=True)
class Installation:
    """Where the programs of Nova are; by default in this environment.

    :ivar prefix: the directory above ``bin``, as the programs see it.
    :ivar enter: the command that leads to where they see it so.
    :ivar paste: the ``api-paste.ini`` that Nova brings, as we see it.
    """

    prefix: Path = Path(sys.prefix)
    enter: tuple[str, ...] = ()
    paste: Path = Path(sys.prefix) / "etc" / "nova" / "api-paste.ini"

    def command(self, program: str, *arguments: str) -> list[str]:
        """What runs a program."""
        return [*self.enter, str(self.prefix / "bin" / program), *arguments]


class Deployment:
    """A context manager that runs it.

    :param directory: for its files; the logs stay there.
    :param ironic: an Ironic that is not started yet.
    :param computes: the hosts with a ``nova-compute`` from the start, and their ``[ironic]``.
    :param make_nodes: called when Ironic runs.
    :param refresh: seconds between two refreshes of a ``nova-compute``.
    :param steps: measures what is done with it.
    :param progress: called with a line about each long step.
    :param installation: of Nova and of our package.
    :param glance: what serves images; by default one without contents.
    :ivar nodes: the uuids of the nodes at the start, by shard.
    :ivar computes: the ``nova-compute`` of each host.
    :ivar ironic: the Ironic.
    :ivar databases: URLs by name: ``api``, ``cell0``, ``cell1`` and ``placement``.
    :ivar user: asks Nova for servers.
    :ivar operator: looks at Ironic and Placement.
    """

    def __init__(
        self,
        directory: Path,
        ironic: real_ironic.RealIronic | FakeIronicProcess,
        *,
        computes: Mapping[str, Mapping[str, Any]],
        make_nodes: Callable[[Operator], None] = lambda operator: None,
        refresh: int = 10,
        steps: Steps,
        progress: Callable[[str], None],
        installation: Installation | None = None,
        glance: StandInGlance | None = None,
    ) -> None:
        self._directory = directory
        self._installation = installation or Installation()
        self._glance = glance or StandInGlance()
        self.ironic = ironic
        self._options = dict(computes)
        self._make_nodes = make_nodes
        self._refresh = refresh
        self.steps = steps
        self._progress = progress
        self._stack = contextlib.ExitStack()
        self.programs: list[Program] = []
        self.computes: dict[str, Program] = {}
        self._enter: dict[str, tuple[str, ...]] = {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._stack = stack
            self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def trouble(self) -> dict[str, str]:
        """The end of the warnings and errors of each program's log, by its name."""
        return {program.name: program.trouble() for program in self.programs}

    # -- starting it ----------------------------------------------------------

    def _start(self) -> None:
        self._logs = self._directory / "logs"
        self._etc = self._directory / "etc"
        for directory in (self._logs, self._etc):
            directory.mkdir()
        self._progress("Starting RabbitMQ, Ironic and what else Nova needs")
        enter = self._stack.enter_context
        server = enter(databases.server(databases.MARIADB))
        with ThreadPoolExecutor() as pool:
            rabbitmq = pool.submit(enter, broker(self._logs))
            started = pool.submit(enter, self.ironic)
            self.databases = {name: enter(server.fresh(self._directory)) for name in _DATABASES}
            started.result()
        # Until they are listened at, the schemas are made.
        ports = {name: enter(reserved_port()) for name in _APPLICATIONS}
        placement = f"http://127.0.0.1:{ports['placement']}"
        self._endpoints = configuration.Endpoints(
            broker=rabbitmq.result(),
            databases=self.databases,
            ironic=self.ironic.url,
            placement=placement,
            glance=enter(self._glance).url,
            neutron=enter(StandInNeutron()).url,
        )
        self.operator = Operator(self.ironic.url, placement, self.steps.own)
        self.user = User(f"http://127.0.0.1:{ports['nova-api']}", self._endpoints.neutron)
        self._write_files()
        self._progress("Making the schemas of Nova and Placement")
        self._make_schemas()
        self._progress("Starting Placement and Nova")
        served = {
            name: self._serve(name, module, ports[name]) for name, module in _APPLICATIONS.items()
        }
        for name in ("nova-scheduler", "nova-conductor"):
            self._run(name, "--config-file", str(self._etc / "nova.conf"))
        self._make_nodes(self.operator)
        self.nodes: dict[str, list[str]] = {}
        for uuid, node in self.operator.nodes().items():
            self.nodes.setdefault(node["shard"] or "", []).append(uuid)
        for name, program in served.items():
            self._wait_for_port(program, ports[name])
        for host, options in self._options.items():
            self.computes[host] = self.start_compute(host, host, **options)
        self._wait_for_services()
        self.discover_hosts()
        self.user.create_flavor(RESOURCE_CLASS)
        self.wait_until_nodes_are_free()
        self.steps.logs = {
            figures.IRONIC: self.ironic.process.log,
            figures.PLACEMENT: self._logs / "placement.log",
        }
        self._progress("Nova is up")

    def _write_files(self) -> None:
        state, endpoints = self._directory, self._endpoints
        controller = configuration.controller(endpoints, state / "controller")
        for name, sections in (
            ("placement.conf", configuration.placement(endpoints)),
            ("nova.conf", controller),
            (
                "cell0.conf",
                controller | {"database": {"connection": endpoints.databases["cell0"]}},
            ),
        ):
            configuration.write(self._etc / name, sections)
        installed = self._installation.paste.read_text()
        (self._etc / "api-paste.ini").write_text(configuration.paste(installed))

    def discover_hosts(self) -> None:
        """Let the scheduler know of each ``nova-compute`` that has been started."""
        self.manage("cell_v2", "discover_hosts", "--by-service")

    def _make_schemas(self) -> None:
        with ThreadPoolExecutor() as pool:
            made = [
                pool.submit(self.manage, "api_db", "sync"),
                pool.submit(self.manage, "db", "sync", "--local_cell"),
                pool.submit(self.manage, "db", "sync", "--local_cell", file="cell0.conf"),
            ]
        for one in made:
            one.result()
        cell0 = self._endpoints.databases["cell0"]
        self.manage("cell_v2", "map_cell0", "--database_connection", cell0)
        self.manage("cell_v2", "create_cell", "--name", "cell1")

    def manage(self, *arguments: str, file: str = "nova.conf") -> None:
        """Run ``nova-manage``."""
        done = subprocess.run(
            self._command("nova-manage", "--config-file", str(self._etc / file), *arguments),
            capture_output=True,
            text=True,
            check=False,
            cwd=self._directory,
        )
        assert done.returncode == 0, f"nova-manage {arguments}:\n{done.stdout}{done.stderr}"

    def start_again(self, host: str) -> None:
        """Start a ``nova-compute`` by its file, and return when it reports: it has its nodes."""
        before = self.user.reported_at(host)
        if host in self.computes:
            self.computes[host].start()
        else:
            self.computes[host] = self._run_compute(host)

        def reports() -> bool:
            self.computes[host].see_to_it()
            return self.user.reported_at(host) not in (before, None)

        wait_for(f"a report of {host}", reports)

    def fleet(self, *arguments: str) -> list[str]:
        """The command line of ``ironic-virt-fleet``, which reads the controller's file."""
        file = str(self._etc / "nova.conf")
        return self._command("ironic-virt-fleet", "--config-file", file, *arguments)

    @property
    def service_files(self) -> list[str]:
        """The arguments that name the file of each ``nova-compute``."""
        return [f"--service-conf={host}={self._etc / host}.conf" for host in self.computes]

    def leases(self, host: str, name: str) -> tuple[int, str]:
        """What ``ironic-virt-fleet check`` says of the lease of a host: exit code, and words.

        :param name: of the ``nova-compute`` whose file is read.
        """
        codes = [f"--code=lease-{code}" for code in ("of-nobody", "untold", "bypassed")]
        file = f"--service-conf={host}={self._etc / name}.conf"
        command = self.fleet("check", file, *codes)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def _command(self, program: str, *arguments: str) -> list[str]:
        return self._installation.command(program, *arguments)

    def _run(self, program: str, *arguments: str, name: str | None = None) -> Program:
        return self._started(name or program, self._command(program, *arguments), {})

    def start_compute(
        self,
        name: str,
        host: str,
        driver: str = configuration.DRIVER,
        package: Path | None = None,
        machine: Machine | None = None,
        **ironic: Any,
    ) -> Program:
        """Start a ``nova-compute`` with a separate state directory.

        :param package: the directory with another version of our package, or part of one.
        :param machine: where it runs; by default here.
        :param ironic: options of ``[ironic]`` of this one alone.
        """
        self.configure(name, host, driver, **ironic)
        if machine is not None:
            file = self._etc / f"{name}.conf"
            wire = file.with_suffix(".wire")
            texts = machine.connect(file.read_text())
            for path, text in zip((wire, file), texts, strict=True):
                path.write_text(text)
            self._started(f"{name}-wire", ["haproxy", "-db", "-f", str(wire)], {})
            self._enter[name] = machine.enter
        return self._run_compute(name, package)

    def configure(
        self, name: str, host: str, driver: str = configuration.DRIVER, **ironic: Any
    ) -> None:
        """Write the file of a ``nova-compute``, which reads it when it is started."""
        state = self._directory / name
        sections = configuration.compute(
            self._endpoints, state, host, driver, self._refresh, **ironic
        )
        configuration.write(self._etc / f"{name}.conf", sections)

    def _run_compute(self, name: str, package: Path | None = None) -> Program:
        file = str(self._etc / f"{name}.conf")
        command = self._command("nova-compute", "--config-file", file)
        command[:0] = self._enter.get(name, ())
        return self._started(name, command, {"PYTHONPATH": str(package)} if package else {})

    def _serve(self, name: str, module: str, port: int) -> Program:
        # Without -P the script's neighbours would hide modules of the same name.
        script = str(Path(__file__).parent / "serve_wsgi.py")
        command = self._command("python3", "-P", script, module, str(port), configuration.ADMIN)
        where = {
            name: str(self._etc) for name in ("OS_NOVA_CONFIG_DIR", "OS_PLACEMENT_CONFIG_DIR")
        }
        # Its server has threads.
        where["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "1"
        return self._started(name, command, where)

    def _started(self, name: str, command: list[str], variables: Mapping[str, str]) -> Program:
        program = Program(
            name, command, directory=self._directory / name, logs=self._logs, variables=variables
        )
        self.programs.append(program)
        program.start()
        self._stack.callback(program.stop)
        return program

    def _wait_for_port(self, program: Program, port: int) -> None:
        def there() -> bool:
            program.see_to_it()
            return listens(port)

        wait_for(program.name, there)

    def _wait_for_services(self) -> None:
        wanted = {("nova-compute", host) for host in self.computes}
        wanted |= {(name, "controller") for name in ("nova-scheduler", "nova-conductor")}

        def up() -> bool:
            for program in self.programs:
                program.see_to_it()
            return wanted <= self.user.services_up()

        wait_for("Nova's services", up)

    # -- looking at it --------------------------------------------------------

    @property
    def all_nodes(self) -> list[str]:
        """The nodes of all shards."""
        return [node for nodes in self.nodes.values() for node in nodes]

    def wait_until_nodes_are_free(self) -> None:
        """Return when every node is free, in Ironic and for Placement."""
        wait_for(
            "all nodes free for Placement",
            lambda: self.operator.free_providers(RESOURCE_CLASS) >= set(self.all_nodes),
        )

    def wait_for_no_leaks(self) -> None:
        """Return when every node is as if nothing had ever been on it, cleaning included.

        Free, with neither an instance nor its data, and without allocations in Placement.
        """
        left: dict[str, Any] = {}

        def clean() -> bool:
            left.clear()
            left.update(self.operator.leaks(self.all_nodes))
            return not left

        try:
            wait_for("all nodes clean", clean)
        except AssertionError as error:
            error.add_note("\n".join(f"{uuid}: {node}" for uuid, node in left.items()))
            raise

    # -- disturbing it --------------------------------------------------------

    def kill_in_mid_deploy(self, host: str) -> set[str]:
        """Kill a ``nova-compute`` when Ironic is deploying to some of its nodes.

        :returns: those nodes.
        """
        deploying = self.wait_for_deployments(host)
        self.computes[host].kill()
        return deploying

    def wait_for_deployments(self, host: str) -> set[str]:
        """Return when Ironic is deploying to some nodes of a ``nova-compute``: which they are."""
        deploying: set[str] = set()

        def some() -> bool:
            nodes = self.operator.nodes()
            deploying.update(
                uuid
                for uuid in self.nodes[SHARDS[host]]
                if nodes[uuid]["provision_state"] == "deploying"
            )
            return len(deploying) >= _SOME

        wait_for(f"deployments on the nodes of {host}", some)
        return deploying

    def wait_for_reboots(self, nodes: Iterable[str]) -> None:
        """Return when Ironic has begun to reboot each of these nodes."""

        def begun() -> bool:
            seen = self.operator.nodes()
            return all(seen[uuid]["target_power_state"] == "rebooting" for uuid in nodes)

        wait_for("reboots", begun)


def over_real_ironic(
    directory: Path,
    options: real_ironic.Options,
    *,
    nodes: int,
    steps: Steps,
    progress: Callable[[str], None],
) -> Deployment:
    """Nova with :data:`SHARDS` over the real Ironic.

    :param nodes: how many there are in each shard.
    """
    ironic = real_ironic.RealIronic(options, database=real_ironic.MARIADB, progress=progress)

    def make_nodes(operator: Operator) -> None:
        for seed, shard in enumerate(SHARDS.values()):
            operator.create_nodes(ironic, nodes, RESOURCE_CLASS, shard=shard, seed=seed)

    return Deployment(
        directory,
        ironic,
        computes={host: {"shard": shard} for host, shard in SHARDS.items()},
        make_nodes=make_nodes,
        steps=steps,
        progress=progress,
    )
