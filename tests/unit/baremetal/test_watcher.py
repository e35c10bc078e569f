# SPDX-License-Identifier: Apache-2.0

"""Waiting in threads: how each wait ends, and that none is lost.

Time passes only when a test lets it.
"""

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


def until_active(node: Node | None) -> str | None:
    return "done" if node is not None and node.provision_state == "active" else None


class Wait(threading.Thread):
    """A wait in its own thread."""

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


class Stage:
    """Two nodes that are deployed, and a watcher for those who wait."""

    def __init__(self) -> None:
        self.ironic = ScriptedIronic({"a": "deploying", "b": "deploying"})
        self.clock = VirtualClock()
        self.watcher = self.new_watcher()

    def new_watcher(self, **options: Any) -> Watcher:
        return Watcher(
            self.ironic,
            node_filter=NodeFilter,
            interval=INTERVAL,
            clock=self.clock,
            rng=random.Random(0),
            pause=self.clock.pause,
            **options,
        )

    def wait(self, node: str = "a", until: Callable[..., Any] = until_active, **how: Any) -> Wait:
        return Wait(self.watcher, node, until, **how)

    def pass_time(self, until: Callable[[], bool]) -> None:
        """Let time pass, a little at a time, until something is the case."""

        def threads() -> list[threading.Thread]:
            waiting = [thread for thread in threading.enumerate() if isinstance(thread, Wait)]
            return [*waiting, *pollers()]

        self.clock.pass_by(INTERVAL / 20, until, threads)

    def end_of(self, wait: Wait) -> Any:
        """Let time pass until it has ended; what it ended with."""
        self.pass_time(lambda: not wait.is_alive())
        return wait.outcome()

    def ends_as_ever(self) -> bool:
        """Whether a wait for a node that is as wanted ends well."""
        self.ironic.move("a", "active")
        return self.end_of(self.wait()) == "done"


@pytest.fixture
def stage() -> Iterator[Stage]:
    wait_for_pollers_to_end()  # of tests before, which may not wait for theirs
    stage = Stage()
    yield stage
    stage.watcher.stop()
    wait_for_pollers_to_end()


def test_a_wait_returns_what_until_returns(stage: Stage) -> None:
    wait = stage.wait()
    stage.pass_time(lambda: len(stage.ironic.requests) >= 3)
    assert wait.is_alive()
    stage.ironic.move("a", "active")
    assert stage.end_of(wait) == "done"
    stage.ironic.move("a", None)
    for result in ("gone", False, 0, ""):

        def told(node: Node | None, result: Any = result) -> Any:
            return result if node is None else None

        assert stage.end_of(stage.wait("a", told)) == result


def test_the_state_that_the_caller_knows_saves_a_request(stage: Stage) -> None:
    for node in ("a", "b"):
        stage.wait(node, state="deploying")
    stage.pass_time(lambda: len(stage.ironic.requests) >= 1)
    assert stage.ironic.requests[0] == ("list", "deploying")


def test_a_wait_takes_place_in_a_block_of_its_instance(stage: Stage) -> None:
    blocks: list[str | None] = []

    @contextlib.contextmanager
    def block(instance: str | None) -> Iterator[None]:
        blocks.append(instance)
        yield
        blocks.append("ended")

    stage.watcher = stage.new_watcher(while_waiting=block)
    stage.ironic.move("a", "active")
    assert stage.end_of(stage.wait(instance="i-1")) == "done"
    assert blocks == ["i-1", "ended"]


def test_until_and_abort_run_in_the_callers_thread_unlocked(stage: Stage) -> None:
    seen: dict[str, threading.Thread] = {}

    def until(node: Node | None) -> str:
        seen["until"] = threading.current_thread()
        # A lock held here would make this wait for itself forever.
        with pytest.raises(exceptions.BuildAborted):
            stage.watcher.wait("b", lambda node: None, what="", timeout=0, abort=lambda: "inner")
        return "done"

    def abort() -> None:
        seen["abort"] = threading.current_thread()

    wait = stage.wait("a", until, abort=abort)
    assert stage.end_of(wait) == "done"
    assert seen == {"until": wait, "abort": wait}


@pytest.mark.parametrize(
    ("state", "trouble", "last_seen"),
    [
        ("wait call-back", None, "provision state 'wait call-back', power state not known"),
        (None, None, "Ironic had no such node"),
        (
            "deploying",
            exceptions.IronicUnreachable("connection refused"),
            "the node was not seen yet; since then the requests failed: "
            "Ironic: connection refused",
        ),
    ],
)
def test_the_deadline_is_an_error_that_says_what_was_seen(stage, state, trouble, last_seen):
    stage.ironic.move("a", state)
    stage.ironic.trouble = lambda request: trouble
    with pytest.raises(exceptions.WaitTimeout) as raised:
        stage.end_of(stage.wait(timeout=60, instance="i-1", what="be deployed"))
    error = raised.value
    assert (error.node, error.instance, error.what) == ("a", "i-1", "be deployed")
    assert 60 <= error.seconds < 61
    assert error.last_seen == last_seen
    text = "Node a, server i-1: timed out after 60 s waiting to be deployed; "
    assert str(error) == text + last_seen


class Hanging:
    """An Ironic that doesn't answer until the test releases it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._answer = threading.Event()
        self._asked = threading.Event()
        stage.ironic.trouble = self

    def __call__(self, request: Request) -> None:
        self._asked.set()
        assert self._answer.wait(PATIENCE)

    def wait_until_asked(self) -> None:
        self._stage.pass_time(self._asked.is_set)

    def answer(self) -> None:
        self._answer.set()


@pytest.fixture
def hanging(stage: Stage) -> Iterator[Hanging]:
    hanging = Hanging(stage)
    yield hanging
    hanging.answer()


def test_a_deadline_is_kept_while_ironic_hangs(stage: Stage, hanging: Hanging) -> None:
    began = stage.clock.now
    wait = stage.wait(timeout=100)
    hanging.wait_until_asked()
    stage.clock.wait_for_sleepers(1)
    stage.clock.advance(began + 99 - stage.clock.now)
    stage.clock.wait_for_sleepers(1)
    assert wait.is_alive()
    # At the deadline, and not after it: until the clock goes on, nothing would wait any more.
    stage.clock.advance(began + 100 - stage.clock.now)
    with pytest.raises(exceptions.WaitTimeout, match=r"after 100 s .* not seen yet"):
        wait.outcome()


def test_looks_that_hang_hold_up_nobody_else(stage: Stage) -> None:
    """A few nodes' requests hang for a minute each; the others are looked at as ever."""
    most = 0

    def hang(request: Request) -> Exception | None:
        nonlocal most
        most = max(most, len(pollers()))
        if not str(request[1]).startswith("sick"):
            return None
        condition = threading.Condition()
        with condition:
            stage.clock.pause(condition, 60.0)
        return exceptions.IronicUnreachable("timed out")

    stage.ironic.trouble = hang
    names = [f"sick-{number}" for number in range(5)] + [f"node-{number}" for number in range(5)]
    for name in names:
        stage.ironic.move(name, "available")
    waits = {name: stage.wait(name) for name in names}
    stage.pass_time(lambda: len(stage.ironic.requests) >= 30)
    for name in names:
        stage.ironic.move(name, "active")
    before = stage.clock.now
    well = [waits[name] for name in names if name.startswith("node")]
    stage.pass_time(lambda: not any(wait.is_alive() for wait in well))
    assert stage.clock.now - before <= 2 * INTERVAL + 1
    assert 5 < most <= MOST_REQUESTS
    assert all(waits[name].is_alive() for name in names if name.startswith("sick"))
    stage.ironic.trouble = lambda request: None
    stage.pass_time(lambda: not any(wait.is_alive() for wait in waits.values()))


def test_an_abort_is_heard_while_ironic_hangs(stage: Stage, hanging: Hanging) -> None:
    reasons: list[str] = []
    wait = stage.wait(instance="i-1", abort=lambda: reasons[0] if reasons else None)
    hanging.wait_until_asked()
    stage.clock.wait_for_sleepers(1)
    reasons.append("the instance is being deleted")
    stage.clock.advance(INTERVAL)
    with pytest.raises(exceptions.BuildAborted, match="the instance is being deleted") as raised:
        wait.outcome()
    assert (raised.value.node, raised.value.instance) == ("a", "i-1")


def test_a_stop_is_heard_while_ironic_hangs(stage: Stage, hanging: Hanging) -> None:
    waits = [stage.wait(instance="i-1") for _ in range(3)]
    hanging.wait_until_asked()
    stage.watcher.stop()
    for wait in waits:
        with pytest.raises(exceptions.WaitCancelled, match="the service stops"):
            wait.outcome()


def test_an_abort_is_asked_before_anything_is_waited_for(stage: Stage) -> None:
    def fail() -> str | None:
        raise LookupError("no such instance")

    with pytest.raises(exceptions.BuildAborted):
        stage.wait(abort=lambda: "not wanted").outcome()
    with pytest.raises(LookupError):
        stage.wait(abort=fail).outcome()
    assert stage.ironic.requests == []


def test_what_has_come_true_counts_more_than_a_late_abort(stage: Stage) -> None:
    stage.ironic.move("a", "active")
    judged = threading.Event()

    def until(node: Node | None) -> str | None:
        judged.set()
        return until_active(node)

    wait = stage.wait("a", until, abort=lambda: "late" if judged.is_set() else None)
    assert stage.end_of(wait) == "done"


def test_after_a_stop_every_wait_is_cancelled_at_once(stage: Stage) -> None:
    stage.watcher.stop()
    stage.watcher.stop()
    with pytest.raises(exceptions.WaitCancelled):
        stage.wait().outcome()
    assert stage.ironic.requests == []
    assert pollers() == []


@pytest.mark.parametrize(
    "error",
    [
        exceptions.IronicUnauthorized("who are you?", status=401),
        exceptions.MicroversionNotSupported("shards", "1.82", "1.70"),
        ValueError("a bug"),
    ],
)
def test_what_no_time_will_mend_ends_the_wait_with_that_error(stage, error) -> None:
    stage.ironic.trouble = lambda request: error
    for uuid, wait in {uuid: stage.wait(uuid, state="deploying") for uuid in ("a", "b")}.items():
        with pytest.raises(type(error)) as caught:
            stage.end_of(wait)
        caught.value.add_note(f"of server {uuid}")
        assert caught.value.__notes__ == [f"of server {uuid}"], "another tenant's is not there"


def test_a_fault_of_the_poller_ends_waits_but_not_the_watcher(stage, monkeypatch) -> None:
    def fail() -> None:
        raise RuntimeError("a bug of the poller")

    with monkeypatch.context() as patch:
        patch.setattr(stage.watcher._poll, "ask", lambda look: fail())
        with pytest.raises(RuntimeError, match="a bug of the poller"):
            stage.end_of(stage.wait())
    assert stage.ends_as_ever()


def test_a_thread_that_can_not_be_started_is_started_later(stage, monkeypatch, caplog) -> None:
    start, refused = threading.Thread.start, [1, 2, 3]

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "ironic-virt-watcher" and refused:
            raise RuntimeError(f"can't start new thread {refused.pop()}")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert stage.ends_as_ever()
    assert not refused
    assert caplog.text.count("[threads-short]") == 1
    wait_for_pollers_to_end()
    refused.append(4)
    assert stage.ends_as_ever()
    assert caplog.text.count("[threads-short]") == 2


def test_the_poller_lives_only_while_somebody_waits(stage: Stage) -> None:
    assert pollers() == []
    for _ in range(3):
        other = stage.wait("b")
        assert stage.ends_as_ever()
        stage.clock.wait_until_asleep("ironic-virt-watcher")
        [poller] = pollers()
        assert poller.daemon, "no process waits for Ironic to end"
        stage.ironic.move("b", "active")
        stage.end_of(other)
        poller.join(PATIENCE)
        assert pollers() == []
        stage.ironic.move("b", "deploying")


def test_a_newcomer_wakes_a_poller_that_sleeps_for_others(stage: Stage) -> None:
    stage.wait("b")
    stage.pass_time(lambda: len(stage.ironic.requests) >= 10)
    stage.clock.wait_until_asleep("ironic-virt-watcher")
    before = stage.clock.now
    assert stage.ends_as_ever()
    assert stage.clock.now - before <= INTERVAL / 2
    stage.clock.wait_until_asleep("ironic-virt-watcher")


@pytest.mark.parametrize("seed", range(3))
def test_200_who_wait_all_end_as_their_nodes_did(stage: Stage, seed: int) -> None:
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
        stage.ironic.move(name, "deploying")
    waits = {name: stage.wait(name, until(name), state="deploying") for name in names}
    unfinished = list(names)
    rng.shuffle(unfinished)
    while unfinished:
        for _ in range(rng.randint(1, 40)):
            if unfinished:
                name = unfinished.pop()
                stage.ironic.move(name, ends[name], last_error=f"{name} broke")
        asked = len(stage.ironic.requests)
        stage.pass_time(lambda asked=asked: len(stage.ironic.requests) > asked)
    stage.pass_time(lambda: not any(wait.is_alive() for wait in waits.values()))
    for name, wait in waits.items():
        if ends[name] is None:
            with pytest.raises(exceptions.InstanceNotFound):
                wait.outcome()
        elif ends[name] == "deploy failed":
            with pytest.raises(exceptions.DeployFailed, match=f"{name} broke"):
                wait.outcome()
        else:
            assert wait.outcome() == name
    gets = [uuid for kind, uuid in stage.ironic.requests if kind == "get"]
    assert len(gets) <= 2 * len(names), "a look for each that left, and no more to speak of"


def test_waits_that_come_and_go_in_many_threads_never_hang() -> None:
    """The poller ends and begins again all the time; real time, and little of it."""
    watcher = Watcher(ScriptedIronic({"a": "active"}), node_filter=NodeFilter, interval=0)
    results: list[str] = []

    def visit() -> None:
        for _ in range(5):
            results.append(watcher.wait("a", until_active, what="", timeout=PATIENCE))

    visitors = [threading.Thread(target=visit, daemon=True) for _ in range(4)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join(PATIENCE)
    assert results == ["done"] * 20
    watcher.stop()
