# SPDX-License-Identifier: Apache-2.0

"""As much of Ironic as the watcher asks, with a log of what was asked."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter

Request = tuple[str, str | None]
"""``("list", provision state)`` or ``("get", node)``."""


class ScriptedIronic:
    """Nodes by uuid; ``trouble`` says which request fails how."""

    def __init__(self, states: dict[str, str] | None = None) -> None:
        self.nodes = {
            uuid: Node(uuid=uuid, provision_state=state) for uuid, state in (states or {}).items()
        }
        self.requests: list[Request] = []
        self.filters: list[NodeFilter] = []
        self.trouble: Callable[[Request], Exception | None] = lambda request: None
        self.asked = threading.Semaphore(0)
        self.timeout = 60.0

    def move(self, uuid: str, state: str | None, last_error: str | None = None) -> None:
        """Bring a node into a provision state; ``None``: delete it."""
        if state is None:
            self.nodes.pop(uuid, None)
        else:
            self.nodes[uuid] = Node(uuid=uuid, provision_state=state, last_error=last_error)

    def take_requests(self) -> list[Request]:
        """What was asked since the last time."""
        taken, self.requests = self.requests, []
        return taken

    def within(self, timeout: float) -> ScriptedIronic:
        """Return a copy whose requests may take this many seconds."""
        twin = copy.copy(self)
        twin.timeout = timeout
        return twin

    def list_nodes(
        self,
        where: NodeFilter = NodeFilter(),  # noqa: B008 - frozen
        *,
        fields: Iterable[str] = (),
    ) -> list[Node]:
        self.filters.append(where)
        self._ask(("list", where.provision_state))
        # A copy, made in one piece: a test may move nodes meanwhile.
        nodes = list(self.nodes.values())
        return [node for node in nodes if node.provision_state == where.provision_state]

    def get_node(self, uuid: str) -> Node:
        self._ask(("get", uuid))
        if uuid not in self.nodes:
            raise exceptions.NodeNotFound(f"Node {uuid} could not be found.", node=uuid)
        return self.nodes[uuid]

    def _ask(self, request: Request) -> None:
        self.requests.append(request)
        self.asked.release()
        error = self.trouble(request)
        if error is not None:
            raise error
