# SPDX-License-Identifier: Apache-2.0

"""What the locks of real backends do, on which a lease is built."""

import socket
import time
from collections.abc import Iterator

import pytest

from ironic_virt import exceptions, standby
from ironic_virt.standby import Note, ToozLock
from tests.backends.servers import Backend, backend
from tests.nova_deployment.processes import wait_for

TTL = 5


@pytest.fixture(params=["redis", "etcd"])
def server(request: pytest.FixtureRequest) -> Iterator[Backend]:
    with backend(request.param) as made:
        yield made


def test_a_lock_is_kept_by_renewal_and_free_soon_after_the_last(server: Backend) -> None:
    first, second = ToozLock(server.url, TTL), ToozLock(server.url, TTL)
    assert first.acquire("compute1")
    # Longer than a lock lives.
    for _ in range(2 * TTL):
        time.sleep(0.6)
        assert first.renew()
        assert not second.acquire("compute1")
    wait_for("the lock", lambda: second.acquire("compute1"), 2 * TTL)
    assert not first.renew(), "it learns that it is another's"
    assert second.renew()
    second.release()
    assert not second.renew()
    assert first.acquire("compute1"), "at once"


def test_a_key_that_somebody_has_deleted_is_lost(server: Backend) -> None:
    one = ToozLock(server.url, TTL)
    assert one.acquire("compute1")
    other = ToozLock(server.url, TTL)
    other.acquire("compute1")
    other._lock.break_()
    assert not one.renew()


def test_whoever_looks_sees_how_old_a_lease_is_and_takes_nothing(server: Backend) -> None:
    def age() -> float | None:
        return standby.look_at_lease(server.url, TTL, "", "Compute1").age

    assert age() is None
    one = ToozLock(server.url, TTL)
    assert one.acquire("compute1")
    seen = age()
    assert seen is not None
    assert 0 <= seen <= 2
    assert one.renew()
    one.release()
    assert age() is None


def test_whoever_looks_sees_what_processes_say_of_themselves(server: Backend) -> None:
    holder = Note(True, "machine-1", 1, "2026-11-26 10:00:00", "1.0")
    waiting = Note(False, "machine-2", 2, "2026-11-26 11:00:00", "1.0")
    for host, note in (("Compute1", waiting), ("Compute1", holder), ("compute10", holder)):
        one = ToozLock(server.url, TTL)
        one.acquire(host)
        one.write_note(host, note, 60)
    assert standby.look_at_lease(server.url, TTL, "", "compute1").notes == [holder, waiting]
    other = ToozLock(server.url, TTL, "cloud2")
    assert other.acquire("compute1"), "another cloud's"
    assert other.read_notes("compute1") == []


@pytest.mark.parametrize("scheme", ["etcd3+http", "redis"])
def test_a_look_that_gets_no_answer_ends(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        look = standby.look_at_lease(f"{scheme}://127.0.0.1:{port}", 60, "", "compute1", seconds=1)
        assert look.untold == "no answer within 1 s"


def test_an_etcd_that_is_gone_is_an_error_and_no_answer() -> None:
    # tooz and redis-py together try a Redis for minutes, in which the lease expires.
    with backend("etcd") as server:
        one, other = ToozLock(server.url, TTL), ToozLock(server.url, TTL)
        assert one.acquire("compute1")
        server.kill()
        for call in (one.renew, lambda: other.acquire("compute1"), one.release):
            with pytest.raises(exceptions.StandbyBackendFailed):
                call()
