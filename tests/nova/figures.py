# SPDX-License-Identifier: Apache-2.0

"""How long each step of a scenario takes, and how many requests, driver by driver."""

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import requests

IN_TREE, OURS = "in-tree", "ours"


@dataclasses.dataclass(frozen=True)
class Figure:
    """What a step took.

    :ivar seconds: wall time, as seen through Nova's API.
    :ivar looks: how many of the requests to Ironic only looked how it goes on, after a
        change of state had been asked for: their number depends on the time that it took.
    """

    seconds: float
    ironic: int
    looks: int = 0

    @property
    def steps(self) -> int:
        """The requests to Ironic without those looks: the same number each time."""
        return self.ironic - self.looks


_taken: dict[tuple[str, str], Figure] = {}


def packed() -> list[tuple[str, str, dict[str, float]]]:
    """What this process has taken, in a form that goes from one process to another."""
    return [(*key, dataclasses.asdict(figure)) for key, figure in _taken.items()]


def unpack(figures: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
    """Add what another process has :func:`packed`."""
    for step, driver, fields in figures:
        _taken[step, driver] = Figure(**fields)


class Requests:
    """Counts what this process sends, by a service's name.

    :param services: name to URL.
    """

    def __init__(self, **services: str) -> None:
        self._services = services
        self.log: list[str] = []

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count as long as the block runs."""
        send = requests.Session.send

        def counted(session, request, **kwargs):
            for name, url in self._services.items():
                if request.url.startswith(url):
                    self.log.append(f"{name} {request.method} {request.path_url}")
            return send(session, request, **kwargs)

        with mock.patch.object(requests.Session, "send", counted):
            yield

    @contextlib.contextmanager
    def measuring(self, driver: str, step: str) -> Iterator[None]:
        """Note what the block takes as a step's figure."""
        began, first = time.monotonic(), len(self.log)
        yield
        seconds, log = time.monotonic() - began, self.log[first:]
        sent = sum(line.startswith("ironic ") for line in log)
        _taken[step, driver] = Figure(seconds, sent, looks_among(log))


def looks_among(log: Iterable[str]) -> int:
    """How many of one server's requests look at what was asked for before.

    :param log: as :attr:`Requests.log`.
    """
    looks, waiting = 0, False
    for line in log:
        service, method, path = line.split(" ", 2)
        if service == "ironic":
            if method != "GET":
                waiting = "/states/" in path
            looks += waiting and method == "GET"
    return looks


def compared() -> Iterator[tuple[str, Figure, Figure]]:
    """The steps that both drivers have taken: theirs, ours."""
    for step in dict.fromkeys(step for step, _ in _taken):
        theirs, ours = _taken.get((step, IN_TREE)), _taken.get((step, OURS))
        if theirs is not None and ours is not None:
            yield step, theirs, ours
