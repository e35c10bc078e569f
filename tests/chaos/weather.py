# SPDX-License-Identifier: Apache-2.0

"""What goes wrong: requests to Ironic, processes, connections to the database."""

import collections
import random
import signal
from collections.abc import Callable, Sequence
from typing import Protocol

import sqlalchemy as sa
from werkzeug.datastructures import Headers

from ironic_virt.testing import fault_proxy
from ironic_virt.testing.fault_proxy import FaultProxy, Reply, Request
from ironic_virt.testing.fault_proxy.faults import Fault, PassOn
from tests.databases import MARIADB, POSTGRESQL, Server

LOCKED = "Node is locked by host another, please retry after the current operation is completed."
_CHANGES = "POST|PUT|PATCH|DELETE"


class Doubled(Fault):
    """Send the request twice; the client gets the second answer."""

    kind = "doubled"

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        pass_on(request)
        return pass_on(request)


class Swallowed(fault_proxy.Hang):
    """Let the client wait; Ironic never sees the request."""

    kind = "swallowed"

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        return super().act(request, lambda _request: Reply(0, Headers(), reset=True))


# What is delayed for longer than a service waits would reach Ironic when nobody wants it any
# more, and Ironic has no fence against that: a request that hangs gets nowhere at all.
_KINDS: dict[str, Callable[[random.Random], tuple[Fault, str]]] = {
    "cut": lambda rng: (fault_proxy.ResetBefore(), ".*"),
    "answer cut": lambda rng: (fault_proxy.ResetAfter(), ".*"),
    "delayed": lambda rng: (fault_proxy.Delay(rng.uniform(0.2, 1.5)), ".*"),
    "doubled": lambda rng: (Doubled(), _CHANGES),
    "hangs": lambda rng: (Swallowed(), ".*"),
    "answer hangs": lambda rng: (fault_proxy.Hang(applied=True), ".*"),
    "truncated": lambda rng: (fault_proxy.Truncate(), "GET"),
    "locked": lambda rng: (fault_proxy.Status(409, LOCKED), _CHANGES),
    "500": lambda rng: (fault_proxy.Status(500), ".*"),
    "503": lambda rng: (fault_proxy.Status(503), ".*"),
    "401": lambda rng: (fault_proxy.Status(401), ".*"),
}


class Sky:
    """What happens to requests: now this, now that, and sometimes no Ironic at all.

    :param now: seconds since the beginning.
    """

    def __init__(self, rng: random.Random, proxy: FaultProxy, now: Callable[[], float]) -> None:
        self._rng = rng
        self._proxy = proxy
        self._now = now
        self._until = 0.0
        self._rules: dict[str, fault_proxy.Rule] = {}
        self.met: collections.Counter[str] = collections.Counter()

    def act(self) -> None:
        """Let the weather change when it is time."""
        if self._now() < self._until:
            return
        self.clear()
        self._until = self._now() + self._rng.uniform(3, 12)
        how = self._rng.random()
        if how < 0.2:
            return
        if how < 0.3:
            self._rules["no Ironic"] = self._proxy.add(fault_proxy.ResetBefore())
            return
        rate = self._rng.choice([0.05, 0.15, 0.4])
        for kind in self._rng.sample(sorted(_KINDS), self._rng.randint(1, 5)):
            fault, method = _KINDS[kind](self._rng)
            seed = self._rng.getrandbits(32)
            self._rules[kind] = self._proxy.add(fault, method, rate=rate, seed=seed)

    def clear(self) -> None:
        """Let all requests through.  What hangs was never sent."""
        for kind, rule in self._rules.items():
            self.met[kind] += rule.hits
            self._proxy.rules.remove(rule)
        self._rules.clear()


class Mortal(Protocol):
    """A process that can be killed and started again: a service, or a conductor of Ironic's."""

    host: str

    @property
    def running(self) -> bool:
        """Whether it runs."""

    def start(self) -> object:
        """Start it."""

    def kill(self) -> None:
        """End it as a power cut would."""

    def signal(self, signum: signal.Signals) -> None:
        """Send it a signal."""


class Deaths:
    """Processes that are killed or stopped, and started again after a while.

    :param what: they are.
    :param down: the longest time from a death to the next start, in seconds.
    """

    def __init__(
        self,
        rng: random.Random,
        what: str,
        mortals: Sequence[Mortal],
        now: Callable[[], float],
        told: Callable[[str], None],
        down: float = 10,
    ) -> None:
        self._rng = rng
        self._what = what
        self._mortals = mortals
        self._down = down
        self._now = now
        self._told = told
        self._next = {one.host: rng.expovariate(1 / 20) for one in mortals}
        self._ending: set[str] = set()
        self.met: collections.Counter[str] = collections.Counter()

    def act(self) -> None:
        """Kill or start whose time it is."""
        for one in self._mortals:
            if self._now() < self._next[one.host]:
                continue
            if not one.running:
                self._told(f"{one.host} starts")
                one.start()
                self._ending.discard(one.host)
                self._next[one.host] = self._now() + self._rng.expovariate(1 / 20)
                continue
            how = self._rng.choice(["SIGKILL", "SIGKILL", "SIGTERM"])
            self.met[f"{how} of a {self._what}"] += 1
            self._told(f"{one.host} gets {how}")
            self._ending.add(one.host)
            if how == "SIGKILL":
                one.kill()
            else:
                one.signal(signal.SIGTERM)
            self._next[one.host] = self._now() + self._rng.uniform(2, self._down)

    def end(self) -> None:
        """Let all live, also who is still stopping."""
        for one in self._mortals:
            if one.host in self._ending or not one.running:
                one.kill()
                one.start()


# How the connections to a database are listed, and one of them is killed.
_STATEMENTS = {
    MARIADB: ("SELECT id FROM information_schema.processlist WHERE db = :name", "KILL :id"),
    POSTGRESQL: (
        "SELECT pid FROM pg_stat_activity WHERE datname = :name",
        "SELECT pg_terminate_backend(:id)",
    ),
}


class Connections:
    """Connections to the database that are killed: one, or all at once.

    :param name: of the database whose connections they are.
    """

    def __init__(
        self, rng: random.Random, server: Server, name: str, now: Callable[[], float]
    ) -> None:
        self._rng = rng
        self._name = name
        self._now = now
        self._next = rng.expovariate(1 / 3)
        self._engine = sa.create_engine(server.url, isolation_level="AUTOCOMMIT")
        self._list, self._kill = (sa.text(one) for one in _STATEMENTS[server.kind])
        self.met: collections.Counter[str] = collections.Counter()

    def act(self) -> None:
        """Kill some when it is time."""
        if self._now() < self._next:
            return
        self._next = self._now() + self._rng.expovariate(1 / 3)
        with self._engine.connect() as connection:
            ids = sorted(connection.scalars(self._list, {"name": self._name}))
            if self._rng.random() < 0.8:
                ids = self._rng.sample(ids, min(len(ids), 2))
            for one in ids:
                try:
                    connection.execute(self._kill, {"id": one})
                except sa.exc.OperationalError:
                    # It has ended meanwhile.
                    continue
                self.met["connection killed"] += 1

    def end(self) -> None:
        """Close our own."""
        self._engine.dispose()
