# SPDX-License-Identifier: Apache-2.0

"""A compute service in a process of its own, which SIGKILL ends at a request of our choice.

The driver is loaded from an operator's file as in life; only the place where requests
leave the process is watched.  Nothing of ours gets to run at the end: no undo, no
``finally``, and no answer is read that came too late.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import re
import signal
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ironic_virt import conf, virt
from ironic_virt.baremetal.http.connection import Answer, KeystoneChannel
from ironic_virt.cmd import compute
from tests.integration.services import Service

SECONDS = 240.0
"""More than any process here should live."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VIFS = uuid.UUID("2f0f6a0a-6f0b-4a51-8f57-7c8c0e5d9a10")

# Processes are forked from one that has imported all that they need, and nothing else.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__, "openstack.connection"])

_REAPING = threading.Lock()
"""A start looks how other processes have ended, and whoever waits for one of them is late."""


@dataclasses.dataclass(frozen=True)
class Point:
    """Where a process is killed.

    :ivar request: method and path of the request, with ``UUID`` for each uuid.
    :ivar number: the first that is such, the second, ...
    :ivar after: when the request has been answered, not before it is sent.
    """

    request: str
    number: int = 1
    after: bool = False

    def __str__(self) -> str:
        times = f", no. {self.number}" if self.number > 1 else ""
        return f"{'after' if self.after else 'before'} {self.request}{times}"


@dataclasses.dataclass(frozen=True)
class End:
    """How a process ended.

    :ivar requests: those that it began, as in a :class:`Point`.
    :ivar killed: by SIGKILL, not by coming to its own end.
    """

    requests: tuple[str, ...]
    killed: bool

    def points(self) -> list[Point]:
        """Before and after each of the requests."""
        numbers = [
            self.requests[: index + 1].count(one) for index, one in enumerate(self.requests)
        ]
        return [
            Point(request, number, after)
            for request, number in zip(self.requests, numbers, strict=True)
            for after in (False, True)
        ]


class RecordedService(Service):
    """A compute service whose records have some instances.

    :ivar known: their uuids.
    """

    def __init__(self, config: Path, known: Collection[str] = ()) -> None:
        self._host = str(conf.load([str(config)]).host)
        self.known = set(known)
        super().__init__(config)

    @property
    def host(self) -> str:
        return self._host

    def owned_instance_uuids(self) -> Collection[str]:
        return set(self.known)

    @contextlib.contextmanager
    def running(self) -> Iterator[RecordedService]:
        """Use it, and stop it."""
        try:
            yield self
        finally:
            self.driver.cleanup_host()

    def spawn(self, instance: virt.Instance, vifs: Sequence[virt.Vif] | None = None) -> None:
        """Reserve and deploy; an instance's network is the same each time."""
        super().spawn(instance, vifs or [virt.Vif(str(uuid.uuid5(_VIFS, instance.uuid)))])


def run(config: Path, method: str, instance: virt.Instance, at: Point | None = None) -> End:
    """Start a service in a process, and call a method of :class:`Service` for an instance.

    :param at: where it is killed; ``None``: nowhere.
    """
    return _lived(_live, config, method, instance, at)


def run_compute(config: Path, at: Point) -> End:
    """Start ``ironic-virt-compute`` in a process.

    :param at: where it is killed; it goes on until then.
    """
    return _lived(_live_as_compute, config, at)


def _lived(life: Callable[..., None], *args: Any) -> End:
    ours, theirs = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=life, args=(theirs, *args), daemon=True)
    with _REAPING:
        process.start()
    theirs.close()
    requests = []
    try:
        while ours.poll(SECONDS):
            requests.append(ours.recv())
        raise AssertionError(f"process {process.pid} has gone quiet after {requests}")
    except EOFError:
        with _REAPING:
            process.join(SECONDS)
    finally:
        process.kill()
        ours.close()
    assert process.exitcode in (0, -signal.SIGKILL), (process.exitcode, requests)
    return End(tuple(requests), process.exitcode != 0)


def _live(
    told: Connection, config: Path, method: str, instance: virt.Instance, at: Point | None
) -> None:
    _watch_requests(told, at)
    service = RecordedService(config, [instance.uuid])
    getattr(service, method)(instance)
    service.driver.cleanup_host()


def _live_as_compute(told: Connection, config: Path, at: Point) -> None:
    _watch_requests(told, at)
    compute.main(["--config-file", str(config), "--log-file", f"{config}.killed.log"])


def _watch_requests(told: Connection, at: Point | None) -> None:
    send = KeystoneChannel.send
    lock = threading.Lock()
    begun: Counter[str] = Counter()

    def watched(self: KeystoneChannel, verb: str, path: str, **request: Any) -> Answer:
        name = f"{verb} {_UUID.sub('UUID', path) or '/'}"
        with lock:
            begun[name] += 1
            told.send(name)
            dies = at is not None and (name, begun[name]) == (at.request, at.number)
        if dies and at is not None and not at.after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = send(self, verb, path, **request)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    KeystoneChannel.send = watched  # type: ignore[method-assign]
