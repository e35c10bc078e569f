# SPDX-License-Identifier: Apache-2.0

"""``nova-processes``: a Nova as operators run it, with either driver.

Each service is its own process, on MariaDB and RabbitMQ; Placement is asked over HTTP
(``tests/nova_deployment``).  Nova's options that cost something have their defaults.  Ironic is
the fake one, in its own process too: a period hardly asks it anything, and it lets a
deployment take no time.

Each side has a deployment for itself, with one nova-compute (:mod:`benchmarks.nova_compute`).
It is started on empty records, has periods in which nothing and in which 1 % of the nodes have
changed, builds a server while a period is under way and another one when none is, and is
restarted.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from typing import Any

import psutil
import requests

from benchmarks import ironic, nova, nova_compute
from benchmarks.registry import Progress
from benchmarks.results import Outcome
from benchmarks.rounds import Figures
from tests.nova_deployment import configuration, deployment, fake_ironic
from tests.nova_deployment.figures import Steps
from tests.nova_deployment.processes import Program, wait_for

MINUTE = 60
HOST = "compute"
_SIDES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "ours": ("ironic_virt.IronicDriver", {}),
    "pools": ("ironic_virt.IronicDriver", {"node_selection": nova.IRONIC}),
    "peer": ("ironic.IronicDriver", {}),
}
_PROGRAMS = {"placement": "placement.wsgi.api", "conductor": "nova-conductor"}
"""What the command lines of their processes have in them."""
_LONGEST = 3600.0
_PAUSE = 0.05
_OF_PROCESSES = {
    "wall": "seconds on the wall",
    "cpu": "seconds of nova-compute's processor time",
    "placement_cpu": "seconds of Placement's processor time",
    "conductor_cpu": "seconds of the conductor's processor time",
}
_OF_PERIODS = {
    "placement_requests": "requests to Placement",
    "database_queries": "calls to the conductor",
}
_STEADY = {"wall": "steady_wall", "cpu": "steady_cpu"}
UNITS = (
    {
        _STEADY.get(name, name): f"{unit} for a period in which 1 % of the nodes have changed"
        for name, unit in (_OF_PROCESSES | _OF_PERIODS).items()
    }
    | {
        f"idle_{name}": f"{unit} for a period in which nothing has changed"
        for name, unit in (_OF_PROCESSES | _OF_PERIODS).items()
    }
    | {
        f"{start}_{name}": f"{unit} from the {start} to the first request that is served"
        for start in ("restart", "start")
        for name, unit in _OF_PROCESSES.items()
    }
    | {
        "build_wall": "seconds on the wall for a server that is asked for as a period begins",
        "build_between_wall": "seconds on the wall for a server that is asked for after a period",
    }
)


def run(rounds: int, progress: Progress, *, nodes: int, period: int = MINUTE) -> Outcome:
    """Measure all sides.

    :param period: seconds from the beginning of one to that of the next.
    """
    found: dict[str, list[Figures]] = {side: [] for side in _SIDES}
    for number in range(1, rounds + 1):
        for side in _SIDES if number % 2 else reversed(_SIDES):
            progress(f"round {number} of {rounds}, {side}")
            with _deployed(nodes, period, progress) as lab:
                figures = _measured(lab, *_SIDES[side])
            found[side].append(figures)
            progress(
                f"{figures['start_wall']:.1f} s to start, {figures['restart_wall']:.1f} s to "
                f"restart, {figures['steady_cpu']:.2f} s of processor time a period"
            )
    return Outcome(
        "nova-processes",
        ours=found["ours"],
        peer=found["peer"],
        pools=found["pools"],
        units=UNITS,
        setting={"nodes": nodes, "seconds from period to period": period, "ironic": "the fake one"}
        | {name: metadata.version(name) for name in ("nova", "openstack-placement")},
    )


def quick(progress: Progress, *, nodes: int = nova.FEW) -> Outcome:
    """Measure few nodes in one round with short periods."""
    return run(1, progress, nodes=nodes, period=5)


class _Deployment(deployment.Deployment):
    """One whose nova-compute notes its periods.

    :ivar figures: the file that has them.
    """

    def __init__(self, directory: pathlib.Path, nodes: int, **more: Any) -> None:
        ironic = fake_ironic.FakeIronicProcess(directory, nodes, deployment.RESOURCE_CLASS)
        super().__init__(directory, ironic, computes={}, steps=Steps(), **more)
        self.figures = directory / "figures"
        self._others = directory / "others"

    def configure(
        self, name: str, host: str, driver: str = configuration.DRIVER, **ironic: Any
    ) -> None:
        """Write the file of a nova-compute, with Nova's own options where they cost something."""
        state = self._directory / name
        sections = configuration.compute(
            self._endpoints, state, host, driver, self._refresh, **ironic
        )
        for option in ("report_interval", "running_deleted_instance_poll_interval"):
            del sections["DEFAULT"][option]
        del sections["ironic"]["api_retry_interval"]
        configuration.write(self._etc / f"{name}.conf", sections)

    def wait_until_nodes_are_free(self) -> None:
        """There is no nova-compute yet."""

    def _run_compute(self, name: str, package: pathlib.Path | None = None) -> Program:
        self._others.write_text(json.dumps({name: pids(text) for name, text in _PROGRAMS.items()}))
        self.figures.touch()
        files = [str(self.figures), str(self._others)]
        # Without -P the script's neighbours would hide modules of the same name.
        command = [sys.executable, "-P", nova_compute.__file__, *files]
        return self._started(
            name, [*command, "--config-file", str(self._etc / f"{name}.conf")], {}
        )

    def until_served(self, program: Program) -> None:
        """Return when a nova-compute has answered a request."""
        from nova import monkey_patch

        monkey_patch.patch(backend="threading")
        from nova import baserpc, conf, context, rpc

        conf.CONF(["--config-file", str(self._etc / f"{program.name}.conf")], project="nova")
        rpc.set_defaults(control_exchange="nova")
        rpc.init(conf.CONF)
        compute = baserpc.BaseAPI(topic="compute")

        served = False
        while not served:
            program.see_to_it()
            # One that it finds when it begins to serve is answered at once.
            with contextlib.suppress(rpc.messaging.MessagingTimeout):
                served = bool(compute.ping(context.get_admin_context(), "served?", timeout=2))
        rpc.cleanup()

    def noted(self) -> list[dict[str, Any]]:
        """What nova-compute has noted of its periods."""
        return [json.loads(line) for line in self.figures.read_text().splitlines()]


def pids(text: str) -> list[int]:
    """The processes that this one has started with a text in their command line."""
    return [
        process.pid
        for process in psutil.Process().children(recursive=True)
        if any(text in argument for argument in process.cmdline())
    ]


@contextlib.contextmanager
def _deployed(nodes: int, period: int, progress: Progress) -> Iterator[_Deployment]:
    with tempfile.TemporaryDirectory(prefix="ironic-virt-bench-") as directory:
        lab = _Deployment(pathlib.Path(directory), nodes, refresh=period, progress=progress)
        try:
            with lab:
                yield lab
        except Exception as error:
            error.add_note("\n".join(f"{name}:\n{text}" for name, text in lab.trouble().items()))
            raise


def _measured(lab: _Deployment, driver: str, options: Mapping[str, Any]) -> Figures:
    """All figures of a side."""
    figures: dict[str, float] = {}

    def start() -> Program:
        return lab.start_compute(HOST, HOST, driver, **options)

    program = _started(lab, "start", start, figures)
    lab.discover_hosts()
    _add(figures, "idle", _next_period(lab))
    with requests.Session() as session:
        fleet = nova.Fleet(
            list(lab.operator.nodes()),
            lab.ironic.url,
            "",
            put=lambda path: ironic.send(session, "PUT", lab.ironic.url + path),
            delete=lambda path: ironic.send(session, "DELETE", lab.ironic.url + path),
        )
        fleet.change()
    _add(figures, "steady", _next_period(lab))
    _wait_for_note(lab, "begin")
    figures["build_wall"] = _built(lab)
    _next_period(lab)
    figures["build_between_wall"] = _built(lab)
    _next_period(lab)
    program.signal(signal.SIGTERM)
    wait_for("the end of nova-compute", lambda: not program.running)

    def restart() -> Program:
        program.start()
        return program

    _started(lab, "restart", restart, figures)
    return figures


def _started(
    lab: _Deployment, name: str, start: Callable[[], Program], figures: dict[str, float]
) -> Program:
    """Start a nova-compute, and add what it took until it has answered a request."""
    before = {one: nova_compute.used(pids(text)) for one, text in _PROGRAMS.items()}
    began = time.monotonic()
    program = start()
    lab.until_served(program)
    wall = time.monotonic() - began
    measured = {"wall": wall, "cpu": nova_compute.used(pids(nova_compute.__file__))}
    for one, text in _PROGRAMS.items():
        measured[f"{one}_cpu"] = nova_compute.used(pids(text)) - before[one]
    _add(figures, name, measured)
    return program


def _add(figures: dict[str, float], phase: str, measured: Figures) -> None:
    for name, value in measured.items():
        steady = _STEADY.get(name, name)
        figures[steady if phase == "steady" else f"{phase}_{name}"] = value


def _next_period(lab: _Deployment) -> Figures:
    """What the first period costs that begins from now on."""
    _wait_for_note(lab, "begin")
    found: Figures = _wait_for_note(lab, "end")["figures"]
    return found


def _wait_for_note(lab: _Deployment, step: str) -> dict[str, Any]:
    """The first note of a kind that is made from now on."""
    before = len(lab.noted())

    def noted() -> dict[str, Any] | None:
        lab.computes.get(HOST, lab.programs[-1]).see_to_it()
        return next((note for note in lab.noted()[before:] if note["step"] == step), None)

    return wait_for(f"the {step} of a period", noted, _LONGEST)


def _built(lab: _Deployment) -> float:
    """Seconds from the request for a server until it is active; it is deleted then."""
    began = time.monotonic()
    lab.user.boot(1)
    while not (server := lab.user.servers()[0]).idle:
        if time.monotonic() - began > _LONGEST:
            raise AssertionError(f"still not built: {server}")
        time.sleep(_PAUSE)
    seconds = time.monotonic() - began
    if server.status != "ACTIVE":
        raise AssertionError(f"not active: {server}")
    lab.user.delete([server])
    wait_for("the end of the server", lambda: not lab.user.servers())
    return seconds
