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

SOON = 20.0
"""Seconds after that in which a request that comes soon after reaches Ironic."""

LATER = 400.0
"""Seconds after which one reaches Ironic that comes much later, on average."""

_MOST = 6
"""Of the changes for another server, that at which a request comes at the latest."""

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
nowhere; ``late``: Ironic gets a change when the client has given up, perhaps long after, when the
node is another server's; ``slow``: Ironic gets it late;
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

    def draw(self, host: str, now: float, changes: bool = True) -> str | None:
        """The fault that a request meets.

        :param changes: whether it changes something: when Ironic gets a request that only reads
            does not matter once nobody waits for the answer.
        """
        for storm in self.storms:
            blows = storm.begin <= now < storm.end and storm.host in (None, host)
            if blows and self._rng.random() < storm.rate:
                kind = self._rng.choice(storm.kinds)
                if kind == "late" and not changes:
                    continue
                self.met[kind] += 1
                return kind
        return None


class Stalled:
    """Changes that were given up, and that Ironic gets all the same.

    Some come soon after, some much later, and some when the node is another server's: those as
    the first, second, … change after one for that server.

    :param until: after that none comes.
    :param carried: the instance that a node has.
    """

    def __init__(
        self,
        rng: random.Random,
        scheduler: Scheduler,
        until: float,
        carried: Callable[[str], str | None],
    ) -> None:
        self._rng = rng
        self._scheduler = scheduler
        self._until = until
        self._carried = carried
        # By node: the former instance, how many changes for others are still to come, the change.
        self._held: dict[str, list[tuple[str | None, int, Callable[[], None]]]] = {}

    def add(self, node: str, instance: str | None, reach: Callable[[], None]) -> None:
        """Have a change reach Ironic at some time.

        :param instance: the one that it is for.
        """
        how = self._rng.choice(["soon", "later", "another's", "another's"])
        if how == "another's":
            entry = (instance, self._rng.randint(1, _MOST), reach)
            self._held.setdefault(node, []).append(entry)
            return
        after = self._rng.uniform(0, SOON)
        if how == "later":
            after = self._rng.expovariate(1 / LATER)
        self._scheduler.spawn(lambda: self._reach(after, reach))

    def _reach(self, after: float, reach: Callable[[], None]) -> None:
        self._scheduler.sleep(after)
        if self._scheduler.now < self._until:
            reach()

    def passed(self, node: str) -> None:
        """A change has reached Ironic: what was held for this moment follows it."""
        waiting = self._held.pop(node, [])
        if self._scheduler.now >= self._until:
            return
        now = self._carried(node)
        due = []
        for instance, count, reach in waiting:
            counts = now is not None and now != instance
            if counts and count == 1:
                due.append(reach)
            else:
                self._held.setdefault(node, []).append((instance, count - counts, reach))
        for reach in due:
            reach()


class Wire:
    """The :class:`Channel` of one process.

    :param ironic: answers at once.
    :param stalled: gets what comes late.
    :param log: called with a line for each request and its result.
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
        stalled: Stalled,
        log: Callable[[str], None],
    ) -> None:
        self._process = process
        self._host = host
        self._ironic = ironic
        self._scheduler = scheduler
        self._weather = weather
        self._rng = rng
        self._watch = watch
        self._stalled = stalled
        self._log = log
        self.sent = 0
        self.dies_at: tuple[int, str] | None = None
        """The request at which the process dies, and when Ironic gets that one: at once, late or
        never."""
        self.on_death: Callable[[], None] = lambda: None

    def send(self, method: str, path: str, **request: Any) -> Answer:
        """Send a request through the weather."""
        self._process.check()
        json = request.get("json")
        self._watch.sent(self._host, method, path, json)
        self.sent += 1
        kind = self._weather.draw(self._host, self._scheduler.now, method != "GET")
        line = f"{self._host} {method} {path}{_asked(request.get('params'))}{_said(json)}"
        dies = None
        if self.dies_at is not None and self.sent >= self.dies_at[0]:
            dies, self.dies_at = self.dies_at[1], None
        task = self._scheduler.task
        task.on_wire = True
        try:
            answer = self._carry(kind, method, path, request, dies)
        except exceptions.IronicError as error:
            self._log(f"{line}: {kind or ''} {error.message}")
            raise
        finally:
            task.on_wire = False
            self._scheduler.sleep_while_stopped()
        self._log(f"{line}: {answer.status}{f' {kind}' if kind else ''}")
        self._watch.shown(self._host, method, path, answer)
        return answer

    def _carry(
        self,
        kind: str | None,
        method: str,
        path: str,
        request: Mapping[str, Any],
        dies: str | None,
    ) -> Answer:
        timeout = min(request.get("timeout") or TIMEOUT, TIMEOUT)
        self._scheduler.sleep(self._rng.uniform(0.002, 0.02))

        json = request.get("json")
        node = self._watch.node_of(path, json)
        # Known only as long as the process that sends it lives.
        instance = self._scheduler.task.about or self._watch.carried(node)

        def reach(late: bool = False) -> Answer:
            self._watch.arrives(self._host, method, path, json, late=late)
            answer = self._ironic.send(method, path, **request)
            self._watch.arrived(method, path, json, answer.status, instance if late else None)
            if method != "GET" and not late:
                self._stalled.passed(node)
            return answer

        def reach_late() -> None:
            answer = reach(late=True)
            self._log(f"{self._host} late {method} {path}{_said(json)}: {answer.status}")

        def no_answer(text: str) -> exceptions.IronicUnreachable:
            return exceptions.IronicUnreachable(text, method=method, path=path)

        if dies is not None:
            if dies == "at once":
                reach()
            elif dies == "late" and method != "GET":
                self._stalled.add(node, instance, reach_late)
            self._log(f"{self._host} dies at {method} {path}")
            self.on_death()
            self._process.check()
        if kind == "refused":
            raise no_answer("Connection refused")
        if kind in _STATUSES:
            return self._refusal(_STATUSES[kind], path)
        if kind in ("hang", "late"):
            if kind == "late" and self._rng.random() < 0.7:
                # It is a proxy that gives up first.
                self._scheduler.sleep(self._rng.uniform(0, timeout / 4))
                self._stalled.add(node, instance, reach_late)
                return self._refusal(504, path)
            self._scheduler.sleep(timeout)
            if kind == "late":
                self._stalled.add(node, instance, reach_late)
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
