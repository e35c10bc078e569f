# SPDX-License-Identifier: Apache-2.0

"""Between a driver and Ironic: what can go wrong with a request, and when it does."""

from __future__ import annotations

import collections
import dataclasses
import json as encoding
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from requests.structures import CaseInsensitiveDict

from ironic_virt import exceptions
from ironic_virt.baremetal.http.connection import Answer, Channel
from tests.simulation.scheduler import Process, Scheduler

if TYPE_CHECKING:
    from tests.simulation.laws import Laws

TIMEOUT = 60.0
"""Seconds after which an answer is given up, unless the request says less."""

LATEST = 20.0
"""Seconds after that in which a request may still reach Ironic."""

_LOCKED = (
    "Node {} is locked by host conductor-9, please retry after the current operation is completed."
)
_IMPORTANT = ("instance_uuid", "provision_state", "power_state", "shard", "conductor_group")
_STATUSES = {"401": 401, "403": 403, "409": 409, "500": 500, "502": 502, "503": 503}

KINDS = (
    "refused",
    "lost",
    "hang",
    "late",
    "slow",
    "slow answer",
    "doubled",
    "truncated",
    "malformed",
    "incomplete",
    "504",
    *_STATUSES,
)
"""What may happen to a request.

``refused``: the connection; ``lost``: Ironic does it, and the answer is lost; ``hang``: it gets
nowhere; ``late``: Ironic gets it when the client has given up; ``slow``: Ironic gets it late;
``slow answer``: the answer comes late, and is old by then; ``doubled``: a proxy sends it twice;
``truncated``, ``malformed``, ``incomplete``: the answer; ``504``: Ironic does it, and the proxy
gives up.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Storm:
    """A time in which requests of a host meet faults.

    :ivar host: ``None``: all hosts.
    :ivar rate: the share of requests that do.
    """

    begin: float
    end: float
    host: str | None
    kinds: tuple[str, ...]
    rate: float


class Weather:
    """Which faults come when.

    :ivar met: how many of each kind have come.
    """

    def __init__(self, rng: random.Random, storms: Sequence[Storm]) -> None:
        self._rng = rng
        self.storms = list(storms)
        self.met: collections.Counter[str] = collections.Counter()

    def draw(self, host: str, now: float) -> str | None:
        """The fault that a request meets."""
        for storm in self.storms:
            blows = storm.begin <= now < storm.end and storm.host in (None, host)
            if blows and self._rng.random() < storm.rate:
                kind = self._rng.choice(storm.kinds)
                self.met[kind] += 1
                return kind
        return None


class Wire:
    """The :class:`Channel` of one process.

    :param ironic: answers at once.
    :param log: told of each request, and of what became of it.
    """

    def __init__(
        self,
        process: Process,
        host: str,
        ironic: Channel,
        scheduler: Scheduler,
        weather: Weather,
        rng: random.Random,
        watch: Laws,
        log: Callable[[str], None],
    ) -> None:
        self._process = process
        self._host = host
        self._ironic = ironic
        self._scheduler = scheduler
        self._weather = weather
        self._rng = rng
        self._watch = watch
        self._log = log
        self.sent = 0
        self.dies_at: tuple[int, bool] | None = None
        """The request at which the process dies, and whether Ironic gets that one."""
        self.on_death: Callable[[], None] = lambda: None

    def send(self, method: str, path: str, **request: Any) -> Answer:
        """Send a request through the weather."""
        self._process.check()
        json = request.get("json")
        self._watch.sent(self._host, method, path, json)
        self.sent += 1
        kind = self._weather.draw(self._host, self._scheduler.now)
        line = f"{self._host} {method} {path}{_asked(request.get('params'))}{_said(json)}"
        dies, gets_there = False, True
        if self.dies_at is not None and self.sent >= self.dies_at[0]:
            dies, gets_there = True, self.dies_at[1]
            self.dies_at = None
        try:
            answer = self._carry(kind, method, path, request, dies, gets_there)
        except exceptions.IronicError as error:
            self._log(f"{line}: {kind or ''} {error.message}")
            raise
        self._log(f"{line}: {answer.status}{f' {kind}' if kind else ''}")
        self._watch.shown(self._host, method, path, answer)
        return answer

    def _carry(
        self,
        kind: str | None,
        method: str,
        path: str,
        request: Mapping[str, Any],
        dies: bool,
        gets_there: bool,
    ) -> Answer:
        timeout = min(request.get("timeout") or TIMEOUT, TIMEOUT)
        self._scheduler.sleep(self._rng.uniform(0.002, 0.02))

        def reach(late: bool = False) -> Answer:
            self._watch.arrives(self._host, method, path, request.get("json"), late=late)
            return self._ironic.send(method, path, **request)

        def no_answer(text: str) -> exceptions.IronicUnreachable:
            return exceptions.IronicUnreachable(text, method=method, path=path)

        if dies:
            if gets_there:
                reach()
            self._log(f"{self._host} dies at {method} {path}")
            self.on_death()
            self._process.check()
        if kind == "refused":
            raise no_answer("Connection refused")
        if kind in _STATUSES:
            return self._refusal(_STATUSES[kind], path)
        if kind in ("hang", "late"):
            # What writes to a node has no fence in Ironic: see the page on this.
            has_no_fence = method in ("GET", "PATCH") or path.endswith("/vifs")
            if kind == "late" and not has_no_fence:
                after = timeout + self._rng.uniform(0, LATEST)
                self._scheduler.spawn(lambda: self._reach_late(after, reach))
            self._scheduler.sleep(timeout)
            raise no_answer("Read timed out.")
        if kind == "slow":
            self._scheduler.sleep(self._rng.uniform(0, timeout / 2))
        answer = reach()
        if kind == "doubled":
            answer = reach()
        if kind == "slow answer":
            self._scheduler.sleep(self._rng.uniform(0, timeout / 2))
        self._scheduler.sleep(self._rng.uniform(0.002, 0.02))
        if kind in ("lost", "truncated"):
            raise no_answer(
                "Connection reset by peer"
                if kind == "lost"
                else "Connection broken: IncompleteRead"
            )
        if kind == "504":
            return self._refusal(504, path)
        if kind == "malformed":
            return dataclasses.replace(answer, status=200, body=b"<html>Welcome</html>")
        if kind == "incomplete" and answer.status == 200:
            return dataclasses.replace(answer, body=self._without_a_field(answer.body))
        return answer

    def _reach_late(self, after: float, reach: Callable[[bool], Answer]) -> None:
        self._scheduler.sleep(after)
        answer = reach(True)
        self._log(f"{self._host}: what was given up came in late: {answer.status}")

    def _refusal(self, status: int, path: str) -> Answer:
        parts = path.split("/")
        node = parts[2] if len(parts) > 2 else ""
        text = _LOCKED.format(node) if status == 409 else f"Injected {status}"
        fault = {"faultcode": "Server", "faultstring": text, "debuginfo": None}
        body = encoding.dumps({"error_message": encoding.dumps(fault)}).encode()
        headers = {"Retry-After": "7"} if status == 503 and self._rng.random() < 0.5 else {}
        return Answer(status, CaseInsensitiveDict(headers), body)

    def _without_a_field(self, body: bytes) -> bytes:
        """One field of one row is missing, or is of another type."""
        try:
            shown = encoding.loads(body)
        except ValueError:
            return body
        lists = (value for value in shown.values() if isinstance(value, list))
        # A single node has lists, too, such as that of its traits.
        rows = [shown] if "uuid" in shown else next(lists, [shown])
        rows = [row for row in rows if isinstance(row, dict) and row]
        if rows:
            row = self._rng.choice(rows)
            important = [field for field in _IMPORTANT if field in row]
            field = self._rng.choice(self._rng.choice([important, []]) or sorted(row))
            if self._rng.random() < 0.5:
                del row[field]
            else:
                row[field] = self._rng.choice([17, []])
        return encoding.dumps(shown).encode()


def _asked(params: Mapping[str, Any] | None) -> str:
    shown = {name: value for name, value in (params or {}).items() if name != "fields"}
    return f" {shown}" if shown else ""


def _said(json: Any) -> str:
    if isinstance(json, dict):
        json = {name: value for name, value in json.items() if name != "configdrive"}
    elif isinstance(json, list):
        json = [f"{one['op']} {one['path']}" for one in json]
    return "" if json is None else f" {json}"
