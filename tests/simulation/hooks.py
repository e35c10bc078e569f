# SPDX-License-Identifier: Apache-2.0

"""An operator's hook, which takes its time, and refuses and fails now and then; and its laws."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from ironic_virt.driver.hooks import Deployment, Document, Hook, Refused
from ironic_virt.testing.fake_ironic.records import Node

if TYPE_CHECKING:
    from tests.simulation.world import World


class Hooks(Hook):
    """The hook of all processes of a run.

    It agrees with a node for an instance before a deployment, and after it.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(f"hook {world.seed}")
        self.are_used = self._rng.random() < 0.25
        self._before: dict[str, str] = {}
        self._after: dict[str, str] = {}

    def before_deploy(self, deployment: Deployment) -> None:
        self._answer(self._before, deployment)

    def metadata(self, data: Document, deployment: Deployment) -> Document:
        return {**data, "rack": deployment.node.uuid}

    def after_deploy(self, deployment: Deployment) -> None:
        self._answer(self._after, deployment)

    def _answer(self, agreed: dict[str, str], deployment: Deployment) -> None:
        node = deployment.node.uuid
        process = self._world.scheduler.task.process
        if any(service.process is process for service in self._world.hosts.values()):
            # A standby that has not seen yet that another leads withdraws no answer.
            agreed.pop(node, None)
        self._world.scheduler.sleep(self._rng.choice([0.0, self._rng.uniform(0, 90)]))
        fate = 1.0 if self._world.is_calm else self._rng.random()
        self._world.log(f"hook: {deployment.instance.uuid} on {node}: {fate:.3f}")
        if fate < 0.06:
            raise Refused("no", another_node=fate < 0.03)
        if fate < 0.1:
            raise RuntimeError("a bug of the hook's")
        agreed[node] = deployment.instance.uuid

    # -- laws -----------------------------------------------------------------

    def deploys(self, node: Node, *, is_judged: bool) -> None:
        """The hook has agreed before a node is deployed."""
        self._after.pop(node.uuid, None)
        if is_judged:
            self._check(self._before, node, "deployed")

    def deployed(self, node: Node, drive: dict[str, Any]) -> None:
        """What a hook has written is on the config drive."""
        if self.are_used and drive.get("rack") != node.uuid:
            self._world.laws.found(
                "5 hook", f"the config drive of {node.uuid} lacks a hook's part"
            )

    def told(self, node: Node | None) -> None:
        """The hook has agreed before a server is said to run."""
        if node is not None and not self._world.laws.was_rescued_late(node):
            self._check(self._after, node, "said to run")

    def _check(self, agreed: dict[str, str], node: Node, what: str) -> None:
        if self.are_used and agreed.get(node.uuid) != node.instance_uuid:
            what = f"{node.instance_uuid} on {node.uuid} is {what}, and the hook has not agreed"
            self._world.laws.found("5 hook", what)
