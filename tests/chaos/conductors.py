# SPDX-License-Identifier: Apache-2.0

"""Conductors of Ironic's that die, and the operator who starts one when nothing else helps."""

import collections
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.chaos.nodes import Nodes
from tests.chaos.weather import Deaths
from tools.real_ironic.conductors import Conductor

DOWN = 40.0
"""The longest absence in seconds: some are taken as dead by the others, and some are not."""
PATIENCE = 15.0
"""Seconds after which a node counts as stuck: longer than a conductor needs to fail it itself."""


class Conductors:
    """All of an Ironic's that have their own processes; there may be none.

    :param now: seconds since the beginning.
    :param tell: called with a line for each event.
    """

    def __init__(
        self,
        rng: random.Random,
        conductors: Sequence[Conductor],
        nodes: Nodes,
        now: Callable[[], float],
        tell: Callable[[str], None],
    ) -> None:
        self._all = {one.host: one for one in conductors}
        self._deaths = Deaths(rng, "conductor", conductors, now, tell, DOWN)
        self._nodes = nodes
        self._now = now
        self._tell = tell
        self._since: Mapping[str, float] = {}

    @property
    def met(self) -> collections.Counter[str]:
        """What has happened to them."""
        return self._deaths.met

    def act(self) -> None:
        """Kill or start whose time it is."""
        self._deaths.act()

    def end(self) -> None:
        """Let all live."""
        self._deaths.end()

    @property
    def are_up(self) -> bool:
        """Whether all serve."""
        return all(one.is_up() for one in self._all.values())

    def repair(self) -> None:
        """As an operator: start the conductor again that has a stuck node, for it to fail that."""
        stuck = self._nodes.stuck() if self._all else {}
        self._since = {node: self._since.get(node, self._now()) for node in stuck}
        for node, host in stuck.items():
            if self._now() > self._since[node] + PATIENCE:
                self._tell(f"{host} is started again by an operator: {node} is stuck")
                self.met["stuck nodes"] += 1
                self._since = {}
                self._all[host].kill()
                self._all[host].start()
                return

    def keep_logs(self, directory: Path) -> None:
        """Copy their logs to where they stay."""
        for host, one in self._all.items():
            shutil.copy(one.log, directory / f"conductor-{host}.log")
