# SPDX-License-Identifier: Apache-2.0

"""Waiting in threads: how each wait ends, and that none is lost.

Time passes only when a test lets it.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.waiting.poll import MOST_REQUESTS
from ironic_virt.baremetal.waiting.watcher import Watcher
from tests.clock import PATIENCE, VirtualClock
from tests.unit.baremetal.ironic import Request, ScriptedIronic

INTERVAL = 8.0

PassTime = Callable[[Callable[[], bool]], None]


class Wait(threading.Thread):
    """A wait in a thread of its own."""

    def __init__(self, watcher: Watcher, node: str, until: Callable[..., Any], **how: Any) -> None:
        super().__init__(daemon=True)
        self._arguments = (watcher, node, until, {"what": "be active", "timeout": 0} | how)
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        watcher, node, until, how = self._arguments
        try:
            self.result = watcher.wait(node, until, **how)
        except BaseException as exc:
            self.error = exc

    def outcome(self) -> Any:
        """What the wait ended with, without letting time pass."""
        self.join(PATIENCE)
        assert not self.is_alive(), "the wait has not ended"
        if self.error is not None:
            raise self.error
        return self.result


def pollers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "ironic-virt-watcher"]


def wait_for_pollers_to_end() -> None:
    for thread in pollers():
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the poller outlives its watcher"


def until_active(node: Node | None) -> str | None:
    return "done" if node is not None and node.provision_state == "active" else None


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def ironic() -> ScriptedIronic:
    return ScriptedIronic({"a": "deploying", "b": "deploying"})


@pytest.fixture
def watcher(ironic: ScriptedIronic, clock: VirtualClock) -> Iterator[Watcher]:
    wait_for_pollers_to_end()  # of tests before, which may not wait for theirs
    watcher = Watcher(
        ironic,
        node_filter=NodeFilter,
        interval=INTERVAL,
        clock=clock,
        rng=random.Random(0),
        pause=clock.pause,
    )
    yield watcher
    watcher.stop()
    wait_for_pollers_to_end()


@pytest.fixture
def pass_time(clock: VirtualClock) -> PassTime:
    """Let time pass, a little at a time, until something is the case."""

    def waiting() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if isinstance(thread, Wait)]

    def pass_time(until: Callable[[], bool]) -> None:
        clock.pass_by(INTERVAL / 20, until, lambda: [*waiting(), *pollers()])

    return pass_time


def test_a_wait_returns_what_until_returns(
    watcher: Watcher, ironic: ScriptedIronic, pass_time: PassTime
) -> None:
    wait = Wait(watcher, "a", until_active)
    pass_time(lambda: len(ironic.requests) >= 3)
    assert wait.is_alive()
    ironic.move("a", "active")
    pass_time(lambda: not wait.is_alive())
    assert wait.outcome() == "done"


def test_the_state_that_the_caller_knows_saves_a_request(
    watcher: Watcher, ironic: ScriptedIronic, pass_time: PassTime
) -> None:
    for node in ("a", "b"):
        Wait(watcher, node, until_active, state="deploying")
    pass_time(lambda: len(ironic.requests) >= 1)
    assert ironic.requests[0] == ("list", "deploying")


def test_a_wait_takes_place_in_a_block_of_its_instance(
    ironic: ScriptedIronic, clock: VirtualClock, pass_time: PassTime
) -> None:
    blocks: list[str | None] = []

    @contextlib.contextmanager
    def block(instance: str | None) -> Iterator[None]:
        blocks.append(instance)
        yield
        blocks.append("ended")

    watcher = Watcher(
        ironic,
        node_filter=NodeFilter,
        interval=INTERVAL,
        clock=clock,
        pause=clock.pause,
        while_waiting=block,
    )
    ironic.move("a", "active")
    wait = Wait(watcher, "a", until_active, instance="i-1")
    pass_time(lambda: not wait.is_alive())
    assert wait.outcome() == "done"
    assert blocks == ["i-1", "ended"]
    watcher.stop()
    wait_for_pollers_to_end()


def test_false_and_0_are_results_too(watcher: Watcher, pass_time: PassTime) -> None:
    for result in (False, 0, ""):
        wait = Wait(watcher, "a", lambda node, result=result: result)
        pass_time(lambda wait=wait: not wait.is_alive())
        assert wait.outcome() == result


def test_until_is_told_that_the_node_is_gone(
    watcher: Watcher, ironic: ScriptedIronic, pass_time: PassTime
) -> None:
    ironic.move("a", None)
    wait = Wait(watcher, "a", lambda node: "gone" if node is None else None)
    pass_time(lambda: not wait.is_alive())
    assert wait.outcome() == "gone"


def test_an_error_of_until_ends_that_wait_only(
    watcher: Watcher, ironic: ScriptedIronic, pass_time: PassTime
) -> None:
    failed = exceptions.DeployFailed("a", "i", "no image")

    def judge(node: Node | None) -> None:
        raise failed

    other = Wait(watcher, "b", until_active)
    wait = Wait(watcher, "a", judge)
    pass_time(lambda: not wait.is_alive())
    with pytest.raises(exceptions.DeployFailed) as raised:
        wait.outcome()
    assert raised.value is failed
    assert other.is_alive()
    ironic.move("b", "active")
    pass_time(lambda: not other.is_alive())
    assert other.outcome() == "done"


def test_until_and_abort_run_in_the_callers_thread_with_no_lock_held(
    watcher: Watcher, pass_time: PassTime
) -> None:
    seen: dict[str, threading.Thread] = {}

    def until(node: Node | None) -> str:
        seen["until"] = threading.current_thread()
        # A lock held here would make this wait for itself for ever.
        with pytest.raises(exceptions.BuildAborted):
            watcher.wait("b", lambda node: None, what="", timeout=0, abort=lambda: "inner")
        return "done"

    def abort() -> None:
        seen["abort"] = threading.current_thread()

    wait = Wait(watcher, "a", until, abort=abort)
    pass_time(lambda: not wait.is_alive())
    assert wait.outcome() == "done"
    assert seen == {"until": wait, "abort": wait}


def test_the_deadline_is_an_error_that_tells_all(
    watcher: Watcher, ironic: ScriptedIronic, pass_time: PassTime
) -> None:
    ironic.move("a", "wait call-back")
    wait = Wait(watcher, "a", until_active, timeout=60, instance="i-1", what="be deployed")
    pass_time(lambda: not wait.is_alive())
    with pytest.raises(exceptions.WaitTimeout) as raised:
        wait.outcome()
    error = raised.value
    assert (error.node, error.instance, error.what) == ("a", "i-1", "be deployed")
    assert 60 <= error.seconds < 61
    assert error.last_seen == "provision state 'wait call-back', power state not known"
    assert str(error) == (
        "Node a, server i-1: timed out after 60 s waiting to be deployed; "
        "provision state 'wait call-back', power state not known"
    )


@pytest.mark.parametrize(
    ("state", "trouble", "last_seen"),
    [
        (None, None, "Ironic had no such node"),
        (
            "deploying",
            exceptions.IronicUnreachable("connection refused"),
            "the node was not seen yet; since then the requests failed: "
            "Ironic: connection refused",
        ),
    ],
)
def test_the_deadline_says_what_was_seen(
    watcher: Watcher,
    ironic: ScriptedIronic,
    pass_time: PassTime,
    state: str | None,
    trouble: Exception | None,
    last_seen: str,
) -> None:
    ironic.move("a", state)
    ironic.trouble = lambda request: trouble
    wait = Wait(watcher, "a", until_active, timeout=30)
    pass_time(lambda: not wait.is_alive())
    with pytest.raises(exceptions.WaitTimeout) as raised:
        wait.outcome()
    assert raised.value.last_seen == last_seen


class Hanging:
    """An Ironic that doesn't answer until it is told to."""

    def __init__(self, ironic: ScriptedIronic) -> None:
        self._answer = threading.Event()
        self._asked = threading.Event()
        ironic.trouble = self

    def __call__(self, request: Request) -> None:
        self._asked.set()
        assert self._answer.wait(PATIENCE)

    def wait_until_asked(self) -> None:
        assert self._asked.wait(PATIENCE)

    def answer(self) -> None:
        self._answer.set()


@pytest.fixture
def hanging(ironic: ScriptedIronic) -> Iterator[Hanging]:
    hanging = Hanging(ironic)
    yield hanging
    hanging.answer()


def test_a_deadline_is_kept_while_ironic_hangs(
    watcher: Watcher, clock: VirtualClock, hanging: Hanging, pass_time: PassTime
) -> None:
    began = clock.now
    wait = Wait(watcher, "a", until_active, timeout=100)
    pass_time(lambda: hanging._asked.is_set())
    clock.wait_for_sleepers(1)
    clock.advance(began + 99.9 - clock.now)
    clock.wait_for_sleepers(1)
    assert wait.is_alive()
    clock.advance(0.2)
    with pytest.raises(exceptions.WaitTimeout, match=r"after 100 s .* not seen yet"):
        wait.outcome()


def test_looks_that_hang_hold_up_nobody_else(
    watcher: Watcher, ironic: ScriptedIronic, clock: VirtualClock, pass_time: PassTime
) -> None:
    """A few nodes' requests hang for a minute each; the others are looked at as ever."""
    most = 0

    def hang(request: Request) -> Exception | None:
        nonlocal most
        most = max(most, len(pollers()))
        if not str(request[1]).startswith("sick"):
            return None
        condition = threading.Condition()
        with condition:
            clock.pause(condition, 60.0)
        return exceptions.IronicUnreachable("timed out")

    ironic.trouble = hang
    names = [f"sick-{number}" for number in range(5)] + [f"node-{number}" for number in range(5)]
    for name in names:
        ironic.move(name, "available")
    waits = {name: Wait(watcher, name, until_active) for name in names}
    pass_time(lambda: len(ironic.requests) >= 30)
    for name in names:
        ironic.move(name, "active")
    before = clock.now
    well = [waits[name] for name in names if name.startswith("node")]
    pass_time(lambda: not any(wait.is_alive() for wait in well))
    assert clock.now - before <= 2 * INTERVAL + 1
    assert 5 < most <= MOST_REQUESTS
    assert all(waits[name].is_alive() for name in names if name.startswith("sick"))
    ironic.trouble = lambda request: None
    pass_time(lambda: not any(wait.is_alive() for wait in waits.values()))


def test_an_abort_is_heard_while_ironic_hangs(
    watcher: Watcher, clock: VirtualClock, hanging: Hanging, pass_time: PassTime
) -> None:
    reasons: list[str] = []
    wait = Wait(
        watcher, "a", until_active, instance="i-1", abort=lambda: reasons[0] if reasons else None
    )
    pass_time(lambda: hanging._asked.is_set())
    clock.wait_for_sleepers(1)
    reasons.append("the instance is being deleted")
    clock.advance(INTERVAL)
    with pytest.raises(exceptions.BuildAborted, match="the instance is being deleted") as raised:
        wait.outcome()
    assert (raised.value.node, raised.value.instance) == ("a", "i-1")


def test_a_stop_is_heard_while_ironic_hangs(
    watcher: Watcher, hanging: Hanging, pass_time: PassTime
) -> None:
    waits = [Wait(watcher, "a", until_active, instance="i-1") for _ in range(3)]
    pass_time(lambda: hanging._asked.is_set())
    watcher.stop()
    for wait in waits:
        with pytest.raises(exceptions.WaitCancelled, match="the service stops"):
            wait.outcome()


def test_an_abort_is_asked_before_anything_is_waited_for(
    watcher: Watcher, ironic: ScriptedIronic
) -> None:
    wait = Wait(watcher, "a", until_active, abort=lambda: "not wanted")
    with pytest.raises(exceptions.BuildAborted):
        wait.outcome()
    assert ironic.requests == []


def test_what_has_come_true_counts_more_than_a_late_abort(
    watcher: Watcher, ironic: ScriptedIronic, pass_time: PassTime
) -> None:
    ironic.move("a", "active")
    judged = threading.Event()

    def until(node: Node | None) -> str | None:
        judged.set()
        return until_active(node)

    wait = Wait(watcher, "a", until, abort=lambda: "late" if judged.is_set() else None)
    pass_time(lambda: not wait.is_alive())
    assert wait.outcome() == "done"


def test_an_error_of_abort_ends_the_wait(watcher: Watcher) -> None:
    def abort() -> str | None:
        raise LookupError("no such instance")

    with pytest.raises(LookupError):
        Wait(watcher, "a", until_active, abort=abort).outcome()


def test_after_a_stop_every_wait_is_cancelled_at_once(
    watcher: Watcher, ironic: ScriptedIronic
) -> None:
    watcher.stop()
    watcher.stop()
    with pytest.raises(exceptions.WaitCancelled):
        Wait(watcher, "a", until_active).outcome()
    assert ironic.requests == []
    assert pollers() == []


@pytest.mark.parametrize(
    "error",
    [
        exceptions.IronicUnauthorized("who are you?", status=401),
        exceptions.MicroversionNotSupported("shards", "1.82", "1.70"),
        ValueError("a bug"),
    ],
)
def test_what_no_time_will_mend_ends_the_wait_with_that_error(
    watcher: Watcher, ironic: ScriptedIronic, pass_time: PassTime, error: Exception
) -> None:
    ironic.trouble = lambda request: error
    waits = [Wait(watcher, uuid, until_active, state="deploying") for uuid in ("a", "b")]
    pass_time(lambda: not any(wait.is_alive() for wait in waits))
    for wait in waits:
        with pytest.raises(type(error)):
            wait.outcome()


def test_a_fault_of_the_poller_ends_the_waits_and_not_the_watcher(
    watcher: Watcher,
    ironic: ScriptedIronic,
    pass_time: PassTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise RuntimeError("a bug of the poller")

    with monkeypatch.context() as patch:
        patch.setattr(watcher._poll, "ask", lambda look: fail())
        wait = Wait(watcher, "a", until_active)
        pass_time(lambda: not wait.is_alive())
        with pytest.raises(RuntimeError, match="a bug of the poller"):
            wait.outcome()
    ironic.move("a", "active")
    wait = Wait(watcher, "a", until_active)
    pass_time(lambda: not wait.is_alive())
    assert wait.outcome() == "done"


def test_the_poller_lives_only_while_somebody_waits(
    watcher: Watcher, ironic: ScriptedIronic, clock: VirtualClock, pass_time: PassTime
) -> None:
    assert pollers() == []
    ironic.move("a", "active")
    for _ in range(3):
        other = Wait(watcher, "b", until_active, timeout=0)
        wait = Wait(watcher, "a", until_active)
        pass_time(lambda wait=wait: not wait.is_alive())
        assert wait.outcome() == "done"
        clock.wait_until_asleep("ironic-virt-watcher")
        [poller] = pollers()
        assert poller.daemon, "no process waits for Ironic to end"
        ironic.move("b", "active")
        pass_time(lambda other=other: not other.is_alive())
        poller.join(PATIENCE)
        assert pollers() == []
        ironic.move("b", "deploying")


def test_a_newcomer_wakes_a_poller_that_sleeps_for_others(
    watcher: Watcher, ironic: ScriptedIronic, clock: VirtualClock, pass_time: PassTime
) -> None:
    Wait(watcher, "b", until_active)
    pass_time(lambda: len(ironic.requests) >= 10)
    ironic.move("a", "active")
    clock.wait_until_asleep("ironic-virt-watcher")
    before = clock.now
    wait = Wait(watcher, "a", until_active)
    pass_time(lambda: not wait.is_alive())
    assert wait.outcome() == "done"
    assert clock.now - before <= INTERVAL / 2
    clock.wait_until_asleep("ironic-virt-watcher")


def test_a_thread_that_can_not_be_started_is_the_waits_error(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch, pass_time: PassTime, ironic: ScriptedIronic
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            watcher.wait("a", until_active, what="", timeout=1)
    ironic.move("a", "active")
    wait = Wait(watcher, "a", until_active)
    pass_time(lambda: not wait.is_alive())
    assert wait.outcome() == "done"


@pytest.mark.parametrize("seed", range(3))
def test_200_who_wait_all_end_as_their_nodes_did(
    watcher: Watcher, ironic: ScriptedIronic, pass_time: PassTime, seed: int
) -> None:
    rng = random.Random(seed)
    names = [f"node-{number}" for number in range(200)]
    ends = {name: rng.choice(["active", "deploy failed", None]) for name in names}

    def until(name: str) -> Callable[[Node | None], str | None]:
        def judge(node: Node | None) -> str | None:
            if node is None:
                raise exceptions.InstanceNotFound(name)
            if node.provision_state == "deploy failed":
                raise exceptions.DeployFailed(name, None, node.last_error or "")
            return until_active(node) and node.uuid

        return judge

    for name in names:
        ironic.move(name, "deploying")
    waits = {name: Wait(watcher, name, until(name), state="deploying") for name in names}
    unfinished = list(names)
    rng.shuffle(unfinished)
    while unfinished:
        for _ in range(rng.randint(1, 40)):
            if unfinished:
                name = unfinished.pop()
                ironic.move(name, ends[name], last_error=f"{name} broke")
        asked = len(ironic.requests)
        pass_time(lambda asked=asked: len(ironic.requests) > asked)
    pass_time(lambda: not any(wait.is_alive() for wait in waits.values()))
    for name, wait in waits.items():
        if ends[name] is None:
            with pytest.raises(exceptions.InstanceNotFound):
                wait.outcome()
        elif ends[name] == "deploy failed":
            with pytest.raises(exceptions.DeployFailed, match=f"{name} broke"):
                wait.outcome()
        else:
            assert wait.outcome() == name
    gets = [uuid for kind, uuid in ironic.requests if kind == "get"]
    assert len(gets) <= 2 * len(names), "a look for each that left, and no more to speak of"


def test_waits_that_come_and_go_in_many_threads_never_hang(ironic: ScriptedIronic) -> None:
    """The poller ends and begins again all the time; real time, and little of it."""
    watcher = Watcher(ironic, node_filter=NodeFilter, interval=0)
    ironic.move("a", "active")

    class Visitor(threading.Thread):
        results: list[str] = []  # noqa: RUF012 - shared on purpose

        def run(self) -> None:
            for _ in range(5):
                self.results.append(
                    watcher.wait("a", until_active, what="be active", timeout=PATIENCE)
                )

    visitors = [Visitor(daemon=True) for _ in range(4)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join(PATIENCE)
    assert Visitor.results == ["done"] * 20
    watcher.stop()
