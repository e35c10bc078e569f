# SPDX-License-Identifier: Apache-2.0

"""What a test, or an operator of the fake, can do to it behind the API's back."""

import dataclasses
import threading
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ironic_virt.testing.fake_ironic import checks, factory, network
from ironic_virt.testing.fake_ironic.baremetal import Baremetal, PlannedFailure
from ironic_virt.testing.fake_ironic.clock import Clock, VirtualClock
from ironic_virt.testing.fake_ironic.records import Node

if TYPE_CHECKING:
    import requests_mock

    from ironic_virt.testing.fake_ironic.inprocess import FakeIronicAdapter


def _as_dict(row: Any) -> dict[str, Any]:
    values = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }


class Controls:
    """The part of :class:`~.app.FakeIronic` that is not HTTP."""

    bm: Baremetal
    clock: Clock
    lock: "threading.RLock"

    def _find(self, ident: str) -> Node:
        store = self.bm.store
        node = store.nodes.get(ident) if checks.is_uuid(ident) else store.node_by_name(ident)
        if node is None:
            raise LookupError(f"The fake Ironic has no node {ident}")
        return node

    # Nodes

    def add_node(self, **fields: Any) -> str:
        """Add one node, by default ready to be used.

        :param fields: of the node, and ``ports``: how many ports it gets.
        :returns: its uuid.
        """
        return self.add_nodes(1, **fields)[0]

    def add_nodes(self, count: int, **fields: Any) -> list[str]:
        """Add nodes that are alike but for uuid and name; see :func:`factory.make_node`.

        :returns: their uuids, in order.
        """
        with self.lock:
            return [factory.make_node(self.bm, **fields).uuid for _ in range(count)]

    def node(self, ident: str) -> dict[str, Any]:
        """All fields of a node as they are now, nothing masked."""
        with self.lock:
            self.bm.timeline.catch_up()
            node = self._find(ident)
            values = _as_dict(node)
            allocation = self.bm.store.allocation_of(node)
        del values["operation"], values["allocation_id"]
        values["allocation_uuid"] = allocation.uuid if allocation else None
        return values

    def nodes(self) -> list[dict[str, Any]]:
        """All nodes, as :meth:`node` shows one."""
        with self.lock:
            return [self.node(node.uuid) for node in self.bm.store.nodes]

    def set_node(self, ident: str, **fields: Any) -> None:
        """Set any fields of a node without a check, to play another user's changes.

        A transition that is under way is forgotten if ``provision_state`` is set.
        """
        with self.lock:
            self.bm.timeline.catch_up()
            node = self._find(ident)
            if "provision_state" in fields:
                fields.setdefault("target_provision_state", None)
                fields.setdefault("reservation", None)
                fields["operation"] = None
            if "traits" in fields:
                fields["traits"] = tuple(sorted(fields["traits"]))
            self.bm.update(node, **fields)

    def remove_node(self, ident: str) -> None:
        """Take a node away with all that hangs on it."""
        with self.lock:
            self.bm.store.remove_node(self._find(ident))

    def lock_node(self, ident: str, host: str = "another-conductor") -> None:
        """Reserve a node for a conductor: changing it is answered with 409."""
        self.set_node(ident, reservation=host)

    def unlock_node(self, ident: str) -> None:
        self.set_node(ident, reservation=None)

    def vifs(self, ident: str) -> list[str]:
        """The ids of the VIFs attached to a node."""
        with self.lock:
            return network.vifs(self.bm, self._find(ident))

    def allocations(self) -> list[dict[str, Any]]:
        """All allocations, with ``node_uuid`` for their node."""
        with self.lock:
            self.bm.timeline.catch_up()
            rows = []
            for row in self.bm.store.allocations:
                values = _as_dict(row)
                del values["node"]
                values["node_uuid"] = row.node_uuid
                rows.append(values)
            return rows

    # Mishaps

    def fail_next(
        self, operation: str, error: str, node: str | None = None, count: int = 1
    ) -> None:
        """Let the next ``count`` operations of a kind end in failure.

        :param operation: deploy, undeploy, clean, inspect, verify, rescue,
            unrescue, adopt, service, power, console or allocate.
        :param error: what ``last_error`` will say.
        :param node: uuid of the only node that this is meant for.
        """
        if operation not in _OPERATIONS:
            raise ValueError(f"{operation!r} is none of {', '.join(_OPERATIONS)}")
        with self.lock:
            self.bm.failures.append(PlannedFailure(operation, node, error, count))

    def invalidate(self, ident: str, interface: str, reason: str | None) -> None:
        """Let an interface of a node fail validation for a reason; None heals it."""
        with self.lock:
            key = (self._find(ident).uuid, interface)
            self.bm.invalid.pop(key, None)
            if reason is not None:
                self.bm.invalid[key] = reason

    def refuse_vif(self, vif: str, reason: str | None) -> None:
        """Let Neutron refuse to connect a VIF for a reason; None lets it again.

        An attach is answered with 500 then, and the node keeps the VIF, as in Ironic.
        """
        with self.lock:
            self.bm.refused_vifs.pop(vif, None)
            if reason is not None:
                self.bm.refused_vifs[vif] = reason

    def ignore_soft_power(self, ident: str, ignore: bool = True) -> None:
        """Let the instance on a node ignore soft reboots and soft power offs."""
        with self.lock:
            change = self.bm.deaf.add if ignore else self.bm.deaf.discard
            change(self._find(ident).uuid)

    # Time

    def advance(self, seconds: float) -> None:
        """Move the virtual clock on, and let happen what becomes due.

        :raises TypeError: if the clock is not a virtual one.
        """
        if not isinstance(self.clock, VirtualClock):
            raise TypeError("Only a virtual clock can be moved")
        with self.lock:
            self.clock.advance(seconds)
            self.bm.timeline.catch_up()

    def settle(self) -> None:
        """Move the virtual clock on until nothing is left to happen."""
        with self.lock:
            while (due := self.bm.timeline.next_due()) is not None:
                self.advance(max(0.0, due - self.clock.now()))

    # Ways in

    def adapter(self) -> "FakeIronicAdapter":
        """A transport adapter for ``requests``: mount it on a session."""
        from ironic_virt.testing.fake_ironic.app import FakeIronic
        from ironic_virt.testing.fake_ironic.inprocess import FakeIronicAdapter

        assert isinstance(self, FakeIronic)
        return FakeIronicAdapter(self)

    def mock(
        self, url: str = "http://ironic.test"
    ) -> "AbstractContextManager[requests_mock.Mocker]":
        """Serve ``url`` to every ``requests`` session in this process.

        A context manager, or call ``start()`` and ``stop()`` on it.  Other
        hosts are reached as usual.
        """
        from ironic_virt.testing.fake_ironic.app import FakeIronic
        from ironic_virt.testing.fake_ironic.inprocess import make_mock

        assert isinstance(self, FakeIronic)
        return make_mock(self, url)


_OPERATIONS = (
    "deploy",
    "undeploy",
    "clean",
    "inspect",
    "verify",
    "rescue",
    "unrescue",
    "adopt",
    "service",
    "power",
    "console",
    "allocate",
)
