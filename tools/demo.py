# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt demo`` on a real Ironic, which is installed first if it has to be.

    python -m tools.demo [option]...

The options are those of ``ironic-virt demo``; ``make demo IRONIC=real`` runs it.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

from ironic_virt.cmd import demo, shell
from ironic_virt.cmd.demo.commands import DemoFailed, Display
from ironic_virt.cmd.demo.journey import RESOURCE_CLASS
from ironic_virt.cmd.demo.run import Server
from tools import real_ironic

LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def real(nodes: int, deploy_time: float, display: Display) -> Iterator[Server]:
    """Run a real Ironic on fake hardware.

    :param nodes: how many nodes it has, each with one port.
    :param deploy_time: seconds, about, that a deployment takes.
    :raises DemoFailed: it could not be installed or started.
    """

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


def _first_and_last_line(text: str) -> str:
    """What failed and why; what lies between is the output of some program."""
    first, *more = [line.strip() for line in text.splitlines() if line.strip()]
    if not more:
        return first
    # "It did not start. The end of its log:" announces what is left out here.
    what = first.rpartition(". ")[0] or first.rstrip(":")
    return f"{what}: {more[-1]} (-v shows more)"


class _Demo(demo.Demo):
    """Watch servers being built on a real Ironic, tried, and deleted."""

    ironic = staticmethod(real)
    ironic_name = "a real Ironic"


class _Shell(shell.Shell):
    """``ironic-virt`` with this demo."""

    def __init__(self) -> None:
        super().__init__()
        self.command_manager.add_command("demo", _Demo)


if __name__ == "__main__":
    sys.exit(shell.run(_Shell, ["demo", *sys.argv[1:]]))
