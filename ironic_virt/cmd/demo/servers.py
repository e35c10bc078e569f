# SPDX-License-Identifier: Apache-2.0

"""An Ironic for the demo alone: the fake one in this process.

``tools/demo.py`` has a real one, which comes with the sources only.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from ironic_virt import exceptions
from ironic_virt.cmd.progress import Display

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
def fake(nodes: int, deploy_time: float, _display: Display) -> Iterator[Server]:
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
