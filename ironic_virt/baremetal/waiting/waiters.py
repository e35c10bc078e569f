# SPDX-License-Identifier: Apache-2.0

"""The waiters for nodes, and the requests that show them: the data of the poll."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter

FIELDS = (
    "uuid",
    "name",
    "instance_uuid",
    "provision_state",
    "target_provision_state",
    "power_state",
    "target_power_state",
    "last_error",
    "maintenance",
    "reservation",
    "console_enabled",
)
"""The fields of a node that a waiter gets: all that change meanwhile."""


class Source(Protocol):
    """The part of the client that is used here."""

    def within(self, timeout: float) -> Source:
        """Return a copy with a shorter timeout, in seconds."""

    def list_nodes(self, where: NodeFilter = ..., *, fields: Iterable[str] = ...) -> list[Node]:
        """All nodes that match, with the fields that are named."""

    def get_node(self, uuid: str) -> Node:
        """One node with all its fields."""


@dataclasses.dataclass(slots=True, eq=False)
class Waiter:
    """A caller that waits for a node.

    :ivar state: the node's provision state when last seen; ``None``: it isn't known, or it
        is not there any more.
    :ivar deadline: on the poll's clock; ``None``: no limit.
    :ivar patience: the longest pause between two polls, in intervals.
    :ivar due: when to poll next.
    :ivar polls: how many polls were answered.
    :ivar pace: how many since there was last a reason to poll soon.
    :ivar failures: how many polls in a row failed.
    :ivar refused_since: when the first of the last refusals in a row came.
    :ivar last_error: the last failure; ``None`` after an answer.
    :ivar seen: the node at the last poll; ``None``: Ironic had none.
    :ivar seen_at: when that poll began.
    :ivar unread: the caller has not been given ``seen`` yet.
    :ivar error: ends the wait with that error.
    """

    node: str
    woken: threading.Condition
    state: str | None = None
    deadline: float | None = None
    patience: float = 1.0
    due: float = 0.0
    polls: int = 0
    pace: int = 0
    failures: int = 0
    refused_since: float | None = None
    last_error: str | None = None
    seen: Node | None = None
    seen_at: float = float("-inf")
    unread: bool = False
    error: Exception | None = None


@dataclasses.dataclass(slots=True, eq=False)
class Cohort:
    """Nodes that left a state together, and are probably in the same state now.

    One of them, the probe, is read first: a list of its state shows the others.

    :ivar nodes: the others, not seen since.
    :ivar listed: states that were listed and in which they are not.
    """

    nodes: dict[str, None]
    listed: set[str]


@dataclasses.dataclass(slots=True, eq=False)
class PollRequest:
    """One request: a list of the nodes in a state, or a GET of one node.

    :ivar expected: the nodes that a list should show.
    :ivar cohort: nodes that left a state together with the one that this asks for.
    :ivar waiting: node to its waiters, when this was planned.
    :ivar began: when it was sent.
    :ivar timeout: seconds that it may take.
    """

    node: str | None = None
    state: str | None = None
    expected: dict[str, None] = dataclasses.field(default_factory=dict)
    cohort: Cohort | None = None
    waiting: dict[str, list[Waiter]] = dataclasses.field(default_factory=dict)
    began: float = 0.0
    timeout: float = 0.0

    @property
    def kind(self) -> str:
        """``get`` or ``list``."""
        return "list" if self.node is None else "get"

    @property
    def what(self) -> str:
        """What it requests, in words."""
        return f"nodes in state {self.state!r}" if self.node is None else f"node {self.node}"

    @property
    def nodes(self) -> Iterable[str]:
        """The nodes that it is sent for."""
        return self.expected if self.node is None else (self.node,)

    def answer(
        self, source: Source, node_filter: Callable[[], NodeFilter]
    ) -> list[Node] | Exception:
        """Send it; the nodes that it shows, or why there is no answer."""
        try:
            within = source.within(self.timeout)
            if self.node is not None:
                return [within.get_node(self.node)]
            in_state = msgspec.structs.replace(node_filter(), provision_state=self.state)
            return within.list_nodes(in_state, fields=FIELDS)
        except exceptions.NodeNotFound as exc:
            return [] if self.node is not None else exc
        except Exception as exc:
            return exc

    def waiters(self) -> list[Waiter]:
        """The waiters for these nodes."""
        return [waiter for node in self.nodes for waiter in self.waiting.get(node, ())]

    def failures(self) -> int:
        """The failures in a row of any of its waiters."""
        return max((waiter.failures for waiter in self.waiters()), default=0)
