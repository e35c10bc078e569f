# SPDX-License-Identifier: Apache-2.0

"""The bare metal behind the API: rows, time, chance, and planned mishaps.

One :class:`Baremetal` is handed to every function that changes something; the
functions themselves are in ``operations.py``, ``provisioning.py``, ``power.py``,
``network.py`` and ``allocating.py``.
"""

import dataclasses
import datetime
import random
import uuid
from typing import Any

from ironic_virt.testing.fake_ironic import errors
from ironic_virt.testing.fake_ironic.clock import Clock
from ironic_virt.testing.fake_ironic.records import HistoryEvent, Node
from ironic_virt.testing.fake_ironic.settings import Conductor, Settings, Span, pick
from ironic_virt.testing.fake_ironic.store import Store
from ironic_virt.testing.fake_ironic.timeline import Timeline


@dataclasses.dataclass(slots=True)
class PlannedFailure:
    """Of the next ``count`` operations of a kind, each fails with ``error``."""

    operation: str
    node_uuid: str | None
    error: str
    count: int


class Baremetal:
    """State and rules shared by all handlers."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.timeline = Timeline(clock.now)
        self.store = Store(self.timeline.now)
        self.rng = random.Random(settings.seed)
        self.failures: list[PlannedFailure] = []
        #: (node uuid, interface) -> why its validation fails
        self.invalid: dict[tuple[str, str], str] = {}
        #: VIF -> why Neutron does not take it
        self.refused_vifs: dict[str, str] = {}
        #: uuids of nodes whose instance ignores soft power requests
        self.deaf: set[str] = set()

    def new_uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def seconds(self, span: Span) -> float:
        return pick(span, self.rng)

    def take_failure(self, operation: str, node: Node) -> str | None:
        """The error that this operation is planned to end with, if any."""
        for failure in self.failures:
            if failure.operation == operation and failure.node_uuid in (None, node.uuid):
                failure.count -= 1
                if failure.count <= 0:
                    self.failures.remove(failure)
                return failure.error
        return None

    # Conductors

    def conductors_for(self, group: str, driver: str) -> list[Conductor]:
        return [
            conductor
            for conductor in self.settings.conductors
            if conductor.alive and conductor.group.lower() == group and driver in conductor.drivers
        ]

    def conductor_of(self, node: Node) -> str | None:
        """The host name of the conductor that serves a node, if one does."""
        able = self.conductors_for(node.conductor_group, node.driver)
        return able[node.id % len(able)].hostname if able else None

    def check_served(self, driver: str, group: str, status: int = 404) -> None:
        """Refuse a driver and group that no live conductor serves.

        :raises ApiError: ``status``.
        """
        if not self.conductors_for(group, driver):
            raise errors.ApiError(
                status,
                "No valid host was found. Reason: No conductor service registered which supports"
                f' driver {driver} for conductor group "{group}". Ensure the driver is valid and'
                " enabled.",
            )

    # Locks

    def check_unlocked(self, node: Node) -> None:
        """Refuse to touch a node that a conductor is working on.

        :raises ApiError: 409.
        """
        if node.reservation is not None:
            raise errors.node_locked(node.uuid, node.reservation)

    def acquire(self, node: Node, unserved: int = 404) -> None:
        """Take and release a node's lock, as most that conductors do starts with.

        Like in Ironic that alone touches ``updated_at``.

        :param unserved: the status if no conductor serves the node.
        :raises ApiError: 409 if the lock is taken, else ``unserved``.
        """
        self.check_served(node.driver, node.conductor_group, unserved)
        self.check_unlocked(node)
        self.store.update(node)

    def lock(self, node: Node) -> None:
        self.store.update(node, reservation=self.conductor_of(node) or "conductor-1")

    def unlock(self, node: Node) -> None:
        self.store.update(node, reservation=None)

    def update(self, row: Any, **changes: Any) -> None:
        self.store.update(row, **changes)

    def record_error(self, node: Node, event: str, event_type: str) -> None:
        """Put an error on a node and into its history."""
        self.store.update(node, last_error=event)
        self.record(node, event, event_type, "ERROR")

    def record(self, node: Node, event: str, event_type: str, severity: str = "INFO") -> None:
        """Put an event into a node's history."""
        timestamp = self.store.timestamp()
        self.store.add_event(
            HistoryEvent(
                uuid=self.new_uuid(),
                created_at=timestamp,
                node=node,
                event=event,
                event_type=event_type,
                severity=severity,
                conductor=self.conductor_of(node) or "conductor-1",
                state=node.provision_state,
                target_provision_state=node.target_provision_state,
                duration_seconds=_seconds_since(node.provision_updated_at, timestamp),
            )
        )


def _seconds_since(start: str | None, end: str) -> int | None:
    if start is None:
        return None
    passed = datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(start)
    return int(passed.total_seconds())
