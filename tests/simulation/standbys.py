# SPDX-License-Identifier: Apache-2.0

"""Two processes of one host name: the one that has the lease acts.

The lease is the real one.  Its backend is one lock for each host name, kept as Redis keeps it, or
by a file: that one is let go when its process ends.  A backend may be away, and may lose a lock.
Processes are stopped for a while, as by SIGSTOP: their requests that are on their way arrive.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.standby import Lease, Note, Timing
from tests.simulation.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.host import HostProcess
    from tests.simulation.world import World

_TTL = 60


class Standbys:
    """Whether there are any, the locks, and the law that only one process acts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rng = random.Random(f"standby {world.seed}")
        self.are_used = self.rng.random() < 0.3
        self.is_file = self.rng.random() < 0.3
        self.timing = Timing.of("file" if self.is_file else "redis", _TTL)
        # Of each host: the process with the lock, and when it expires.
        self.locks: dict[str, tuple[Process, float]] = {}
        self._count = 0
        self._terms: dict[Process, int] = {}
        self._acted: dict[str, int] = {}

    def holder(self, host: str) -> Process | None:
        process, until = self.locks.get(host, (None, 0.0))
        is_over = process is None or self._world.scheduler.now >= until
        return None if is_over or (self.is_file and process.dead) else process

    def keep(self, host: str, process: Process, *, once: bool) -> bool:
        """Give a process the lock, or have it keep it, unless it is another's.

        :param once: it has none by now, or does not know that it has: a file is its own again.
        """
        holder = self.holder(host)
        is_own = holder is process and (self.is_file or not once)
        if not is_own and not (once and holder is None):
            return False
        if not is_own:
            self._count += 1
            self._terms[process] = self._count
        seconds = math.inf if self.is_file else self.timing.lock
        self.locks[host] = process, self._world.scheduler.now + seconds
        return True

    def check_turn(self, host: str, what: str) -> None:
        """Whoever changes something has got the lease, and nobody after it has acted (14)."""
        if not self.are_used:
            return
        process = self._world.scheduler.task.process
        term, last = self._terms.get(process, 0), self._acted.get(host, 1)
        if term < last:
            self._world.laws.found("14 lease", f"{process.name} {what}, after the next process")
        self._acted[host] = max(term, last)
        for other in self._world.processes:
            is_rival = other.host == host and other.process is not process
            if is_rival and other.lease and not other.process.dead and other.lease.holds:
                both = f"{process.name} {what}, and {other.process.name} holds the lease"
                self._world.laws.found("14 lease", both)

    def lease_of(self, service: HostProcess) -> Lease | None:
        if not self.are_used:
            return None
        scheduler = self._world.scheduler
        timed: dict[str, Any] = {"clock": scheduler.clock, "sleep": scheduler.sleep}
        lock: Any = _Lock(self, service)
        return Lease(lock, self.timing, leave=service.leave, halt=scheduler.park, **timed)


class _Lock:
    """A process's hold of a host name's lock, in place of :class:`.ToozLock`."""

    def __init__(self, locks: Standbys, service: HostProcess) -> None:
        self._locks = locks
        self._service = service

    def acquire(self, host: str) -> bool:
        return self._ask(lambda: self._locks.keep(host, self._service.process, once=True))

    def renew(self) -> bool:
        host, process = self._service.host, self._service.process
        return self._ask(lambda: self._locks.keep(host, process, once=False))

    def release(self) -> None:
        host = self._service.host
        if self._ask(lambda: self._locks.holder(host)) is self._service.process:
            del self._locks.locks[host]

    def write_note(self, host: str, note: Note, seconds: int) -> None:
        pass

    def read_notes(self, host: str) -> list[Note]:
        return []

    def _ask(self, act: Callable[[], Any]) -> Any:
        world, rng = self._service.world, self._locks.rng
        fault = world.backend_weather.draw(self._service.host, world.scheduler.now)
        world.scheduler.sleep(rng.uniform(0.001, 0.05))
        answer = None if fault == "database" else act()
        if fault:
            world.scheduler.sleep(rng.uniform(0.001, 3.0))
            raise exceptions.StandbyBackendFailed("no answer")
        return answer
