# SPDX-License-Identifier: Apache-2.0

"""An Ironic for the demo alone: the fake one in this process, or a real one.

The fake one ships with the package (``ironic_virt.testing``), what installs and runs a
real one only with its sources (``tools/real_ironic/``); either is imported here only when it is
used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.cmd.demo.commands import DemoFailed
from ironic_virt.cmd.progress import Display

LOG = logging.getLogger(__name__)

CHECKOUT = Path(__file__).parents[3]
"""The directory that the package lies in: that of the sources, or of installed packages."""

RESOURCE_CLASS = "baremetal"
PLACEMENT_CLASS = "CUSTOM_BAREMETAL"

# What other transitions take, as a share of a deployment.
_TEAR_DOWN = 0.3
_CLEAN = 0.4
_POWER = 0.2
_SPREAD = 0.25


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """An Ironic that runs.

    :ivar name: as people call it.
    """

    name: str
    url: str


@contextlib.contextmanager
def fake(nodes: int, deploy_time: float) -> Iterator[Server]:
    """A fake Ironic, served over HTTP by threads of this process.

    :param nodes: how many nodes it has, each with one port.
    :param deploy_time: seconds, about, that a deployment takes.
    :raises ExtrasMissing: a package that it needs isn't installed.
    """
    try:
        from ironic_virt.testing import fake_ironic
    except ModuleNotFoundError as error:
        raise exceptions.ExtrasMissing(error.name, "demo") from error

    def about(share: float) -> tuple[float, float]:
        middle = deploy_time * share
        return middle * (1 - _SPREAD), middle * (1 + _SPREAD)

    server = fake_ironic.FakeIronicServer(
        durations=fake_ironic.Durations(
            deploy=about(1),
            undeploy=about(_TEAR_DOWN),
            clean=about(_CLEAN),
            power=about(_POWER),
        ),
        # As real hardware does, so that there is more to see.
        wait_states=True,
        power_follows_deploy=True,
    )
    server.fake.add_nodes(nodes, resource_class=RESOURCE_CLASS)
    with server:
        yield Server("the fake Ironic", server.url)


@contextlib.contextmanager
def real(nodes: int, deploy_time: float, display: Display) -> Iterator[Server]:
    """A real Ironic on fake hardware, installed first if it has to be.

    :param nodes: how many nodes it has, each with one port.
    :param deploy_time: seconds, about, that a deployment takes.
    :raises DemoFailed: it could not be installed or started, or does not come with this package.
    """
    real_ironic = _real_ironic(CHECKOUT)

    def progress(line: str) -> None:
        display.note(f"  {line}")

    # A deployment prepares, deploys and cleans up, for as long each; whole seconds only.
    options = real_ironic.Options(delays={"deploy": str(round(deploy_time / 3))})
    template = real_ironic.NodeTemplate(resource_class=RESOURCE_CLASS)
    try:
        environment = real_ironic.ensure_environment(progress=progress)
        # Nothing that it does when asked to end is worth a wait.
        ironic = real_ironic.RealIronic(
            options, environment=environment, progress=progress, grace=3.0
        )
        with ironic:
            progress(f"Creating {nodes} nodes")
            real_ironic.create_nodes(ironic, nodes, template)
            yield Server(f"Ironic {ironic.version}", ironic.url)
    except real_ironic.RealIronicError as error:
        LOG.info("%s", error)
        raise DemoFailed(_first_and_last_line(str(error))) from error


def _real_ironic(checkout: Path) -> Any:
    """What installs and runs a real Ironic.

    :raises DemoFailed: this is an installed package, which does not have it.
    """
    if not (checkout / "tools" / "real_ironic").is_dir():
        raise DemoFailed(
            "a real Ironic comes with the sources, and not with the installed package: in a "
            "checkout run make demo IRONIC=real; or leave out --ironic real"
        )
    if str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    return importlib.import_module("tools.real_ironic")


def _first_and_last_line(text: str) -> str:
    """What failed and why; what lies between is the output of some program."""
    first, *more = [line.strip() for line in text.splitlines() if line.strip()]
    if not more:
        return first
    # "It did not start. The end of its log:" announces what is left out here.
    what = first.rpartition(". ")[0] or first.rstrip(":")
    return f"{what}: {more[-1]} (-v shows more)"
