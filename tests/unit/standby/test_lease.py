# SPDX-License-Identifier: Apache-2.0

"""Who may change anything, and when: on a clock that a test moves."""

import dataclasses
import fcntl
import os
import random
import subprocess
import sys
import threading

import pytest

from ironic_virt import exceptions
from ironic_virt.exit_codes import ExitCode
from ironic_virt.standby import Lease, Note, Timing, lease, note

ETCD, REDIS = Timing.of("etcd3+http", 15), Timing.of("redis", 15)


class Backend:
    """Holds one lock, as Redis or etcd would."""

    def __init__(self, timing: Timing) -> None:
        self.now = 1000.0
        self.timing = timing
        self.holder: object = None
        self.expires = 0.0
        self.away = False
        self.notes: dict[object, Note] = {}

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def of(self, who: object) -> bool:
        if self.away:
            raise exceptions.StandbyBackendFailed("no answer")
        return who is not None and self.holder is who and self.now < self.expires

    def give(self, who: object) -> bool:
        self.holder, self.expires = who, self.now + self.timing.lock
        return True


class Process:
    """One process and its lease.

    :ivar slow: seconds from a renewal to its answer.
    :ivar cut_off: since when it has not reached what its work needs; ``None``: it does.
    """

    def __init__(self, backend: Backend, patience: float = 60.0) -> None:
        self.backend = backend
        self.slow = 0.0
        self.cut_off: float | None = None
        self.exits: list[int] = []
        self.halts = 0
        self.lease = Lease(
            self,
            backend.timing,
            self,
            patience,
            clock=backend,
            leave=self.exits.append,
            sleep=backend.sleep,
            halt=self.halt,
        )

    def halt(self) -> None:
        self.halts += 1

    def begin(self, threads: object) -> None:
        """A test says what is reached."""

    def lacks(self, seconds: float) -> str:
        is_lacking = self.cut_off is not None and self.backend.now - self.cut_off > seconds
        return "Ironic" if is_lacking else ""

    def acquire(self, host: str) -> bool:
        held = self.backend.of(self.backend.holder)
        return not held and self.backend.give(self)

    def renew(self) -> bool:
        renewed = self.backend.of(self) and self.backend.give(self)
        self.backend.now += self.slow
        return renewed

    def release(self) -> None:
        if self.backend.of(self):
            self.backend.holder = None

    def write_note(self, host: str, note: Note, seconds: int) -> None:
        self.backend.notes[self] = note
        self.note_ends = self.backend.now + seconds

    def read_notes(self, host: str) -> list[Note]:
        return sorted(self.backend.notes.values(), key=lambda note: not note.active)

    def keep(self) -> None:
        """Renew the lease if it is this process's."""
        if self.lease.age() is not None:
            self.lease.renew()

    def may_change(self) -> bool:
        try:
            return self.lease.may_change() > 0
        except exceptions.LeaseLost:
            return False


def active(backend: Backend) -> Process:
    process = Process(backend)
    assert process.lease.take("compute1")
    while not process.lease.holds:
        backend.now += backend.timing.renew
        process.lease.renew()
    return process


def end(process: Process) -> None:
    process.lease.hand_over()
    for thread in threading.enumerate():
        if thread.name.startswith("ironic-virt-lease"):
            thread.join(10)


def test_the_active_one_may_change_and_the_standby_may_not() -> None:
    backend = Backend(ETCD)
    first, second = active(backend), Process(backend)
    assert not second.lease.take("compute1")
    assert (first.lease.holds, first.lease.age()) == (True, 0.0)
    assert (second.lease.holds, second.lease.age()) == (False, None)
    with pytest.raises(exceptions.LeaseLost, match="does not hold it yet"):
        second.lease.may_change()
    assert second.exits == [], "it waits"


@pytest.mark.parametrize("timing", [ETCD, REDIS], ids=["etcd", "redis"])
def test_a_process_that_was_stopped_changes_nothing_and_ends(timing: Timing) -> None:
    backend = Backend(timing)
    process = active(backend)
    backend.now += 2 * 15
    with pytest.raises(exceptions.LeaseLost, match="not be renewed in time"):
        process.lease.may_change()
    assert process.exits == [ExitCode.LEASE_LOST]
    process.lease.renew()
    process.lease.watch_renewals()
    assert not process.may_change()
    assert process.exits == [ExitCode.LEASE_LOST], "once, and for good"
    assert process.halts == 2, "no action gets an error"


def test_the_program_ends_while_nobody_reads_its_standard_error() -> None:
    script = """
import logging
from ironic_virt.standby import Lease, Timing
logging.basicConfig(level="INFO")
class Lock:
    acquire = renew = lambda self, *_: True
now = 0.0
lease = Lease(Lock(), Timing.of("etcd3+http", 15), clock=lambda: now)
assert lease.take("compute1")
now += 30
lease.may_change()
"""
    reading, writing = os.pipe()
    os.write(writing, bytes(fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)))
    try:
        done = subprocess.run([sys.executable, "-c", script], stderr=writing, timeout=60)
        assert done.returncode == ExitCode.LEASE_LOST
    finally:
        os.close(reading)
        os.close(writing)


def test_a_renewal_whose_answer_comes_too_late_does_not_count() -> None:
    backend = Backend(ETCD)
    process = active(backend)
    process.slow = ETCD.valid
    process.lease.renew()
    assert process.exits == [ExitCode.LEASE_LOST]


def test_a_lock_that_became_anothers_ends_the_process() -> None:
    backend = Backend(REDIS)
    process = active(backend)
    backend.give("somebody else")
    process.lease.renew()
    assert process.exits == [ExitCode.LEASE_LOST]
    assert not process.lease.holds


def test_a_backend_that_is_away_for_a_while_is_survived() -> None:
    backend = Backend(ETCD)
    process = active(backend)
    backend.away = True
    for _ in range(4):
        backend.now += ETCD.renew
        process.lease.renew()
    assert process.lease.holds
    backend.away = False
    process.lease.renew()
    assert process.lease.age() == 0.0


def test_a_lease_that_was_given_back_is_the_next_one_s_at_once() -> None:
    backend = Backend(ETCD)
    first, second = active(backend), Process(backend)
    first.lease.hand_over()
    assert second.lease.take("compute1")
    assert not second.may_change(), "a request of the first one may still be on its way"
    backend.now += ETCD.settle / 2
    second.lease.renew()
    backend.now += ETCD.settle / 2
    assert second.may_change()
    assert not first.may_change()
    assert first.exits == [], "it ends in order"


def test_a_handover_sends_nothing_more_and_ends_open_requests(monkeypatch) -> None:
    backend = Backend(ETCD)
    first, second = active(backend), Process(backend)
    monkeypatch.setattr(lease, "RELEASE_SECONDS", 0.0)

    class Ended(Exception):
        """In the place of the process."""

    def halt() -> None:
        raise Ended

    first.lease._halt = halt
    with first.lease.sending(change=True):
        first.lease.hand_over()
        assert not second.lease.take("compute1")
        assert first.lease.may_change() > 0, "its bytes may still leave"
        for change in (True, False):
            with pytest.raises(Ended), first.lease.sending(change):
                pass
    end(first)
    assert second.lease.take("compute1")
    with pytest.raises(Ended), first.lease.sending(change=False):
        pass
    assert first.exits == []


def test_a_process_that_waits_says_who_holds_the_lease(caplog, monkeypatch) -> None:
    caplog.set_level("INFO", "ironic_virt.standby.lease")
    backend = Backend(ETCD)
    active(backend)
    backend.notes[backend] = Note(True, "machine-1", 4711, "2026-11-26 10:00:00", "1.2.3")
    began = backend.now
    second = Process(backend)

    monkeypatch.setattr(note.metadata, "version", lambda name: "99.0")
    second.lease.wait("compute1", second.keep)
    assert second.may_change()
    assert backend.now - began <= 15 + 1
    assert "Standby: waiting for the lease of compute1, which is held by process 4711 on " in (
        caplog.text
    )
    assert "machine-1, version 1.2.3, since 2026-11-26 10:00:00 UTC" in caplog.text
    seen = backend.notes[second]
    assert (seen.active, seen.pid) == (False, os.getpid())
    assert second.note_ends - backend.now <= ETCD.lock, "not long after it has died"
    backend.now += ETCD.renew
    second.lease.renew()
    assert backend.notes[second].active
    assert backend.notes[second].version == seen.version, "not that of one installed meanwhile"
    end(second)


def test_a_process_that_waits_for_the_backend_says_so_again(caplog) -> None:
    caplog.set_level("INFO", "ironic_virt.standby.lease")
    backend = Backend(ETCD)
    process = Process(backend)
    backend.away, back_at = True, backend.now + 700

    def waiting() -> None:
        backend.away = backend.now < back_at
        process.keep()

    process.lease.wait("compute1", waiting)
    end(process)
    said = [record.message for record in caplog.records]
    assert sum("[lease-backend-failed]" in line for line in said) == 3
    assert "Standby: waiting" not in caplog.text, "nobody has the lease"
    assert sum("answers again" in line for line in said) == 1


def stay_active(process: Process, seconds: float) -> None:
    """Renew its lease for so long, as long as it is the process's."""
    end = process.backend.now + seconds
    while process.backend.now < end and process.lease.holds:
        process.backend.now += process.backend.timing.renew
        process.lease.renew()


WAITS = Note(False, "machine-2", 4711, "2026-11-26 10:00:00", "1.2.3", lacks="")


@pytest.mark.parametrize(
    ("note", "active_for", "hands_over"),
    [
        (WAITS, 700.0, True),
        (WAITS, 500.0, False),
        (dataclasses.replace(WAITS, lacks="RPC"), 700.0, False),
        # It does not look, or is of a former release.
        (dataclasses.replace(WAITS, lacks=None), 700.0, False),
        (dataclasses.replace(WAITS, active=True), 700.0, False),
    ],
)
def test_a_holder_cut_off_from_its_work_hands_over(note, active_for, hands_over, caplog) -> None:
    backend = Backend(ETCD)
    process = active(backend)
    backend.notes[backend] = note
    stay_active(process, active_for - 62)
    process.cut_off = backend.now
    stay_active(process, 58)
    assert (process.lease.holds, process.exits) == (True, []), "it may come back"
    stay_active(process, 4)
    if hands_over:
        assert process.exits == [ExitCode.LEASE_LOST]
        assert not process.may_change()
        assert "[lease-handed-over] This process has not reached Ironic for 60 s" in caplog.text
        assert Process(backend).lease.take("compute1"), "at once"
    else:
        assert (process.lease.holds, process.exits) == (True, [])
        process.cut_off = None
        stay_active(process, 700)
        assert process.exits == []
    end(process)


def test_a_handover_takes_no_user_request_during_one_to_ironic(monkeypatch) -> None:
    monkeypatch.setattr(lease, "RELEASE_SECONDS", 0.01)
    backend = Backend(ETCD)
    process = active(backend)
    backend.notes[backend] = WAITS
    stay_active(process, 700)
    process.cut_off = backend.now - 100
    with process.lease.sending(change=True):
        backend.now += backend.timing.renew
        process.lease.renew()
        assert process.exits == [ExitCode.LEASE_LOST]
        assert process.lease.holds, "nobody else has it until that is over, or it expires"
        process.lease.may_begin()
        assert process.halts == 1
    end(process)


def test_of_those_that_wait_one_that_reaches_all_gets_the_lease() -> None:
    backend = Backend(ETCD)
    first, second = active(backend), Process(backend)
    second.cut_off = 0.0
    backend.notes[backend] = WAITS
    seconds = 0

    def waiting() -> None:
        nonlocal seconds
        seconds += 1
        if seconds == 2:
            first.lease.hand_over()
        if seconds == 10:
            assert second.lease.age() is None, "it leaves the lease to the other one"
            # The other one has ended, and so has its note.
            backend.notes.clear()
        assert seconds < 100
        second.keep()

    second.lease.wait("compute1", waiting)
    assert second.lease.holds
    end(second)


EVENTS = ("look 0", "look 1", "renew 0", "renew 1", "stop 0", "stop 1", "away", "lose the lock")


@pytest.mark.parametrize("timing", [ETCD, REDIS], ids=["etcd", "redis"])
@pytest.mark.parametrize("seed", range(150))
def test_in_no_history_two_may_change_within_the_margin(timing: Timing, seed: int) -> None:
    # Redis may lose the lock; etcd never does, so a late request has the whole time.
    least = timing.margin if timing is REDIS else timing.settle + timing.margin
    draw = random.Random(seed)
    backend = Backend(timing)
    processes = [Process(backend), Process(backend)]
    last: tuple[int, float] | None = None
    for _ in range(60):
        event = draw.choice(EVENTS)
        backend.now += draw.choice((0.0, 0.5, 1.5, 3.0, 9.0))
        word, _, which = event.partition(" ")
        if word == "away":
            backend.away = not backend.away
        elif word == "lose" and timing is REDIS:
            backend.holder = None
        elif word == "stop":
            processes[int(which)] = Process(backend)
        elif word == "renew" and processes[int(which)].lease.age() is not None:
            processes[int(which)].lease.renew()
        elif word == "look" and processes[int(which)].lease.age() is None:
            processes[int(which)].lease.take("compute1")
        for number, process in enumerate(processes):
            if process.lease.holds:
                if last is not None and last[0] != number:
                    assert backend.now - last[1] >= least
                last = number, backend.now
                assert process.may_change()
