# SPDX-License-Identifier: Apache-2.0

"""Which backends hold a lease, and how long its parts last with each."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ironic_virt import exceptions
from ironic_virt.standby import Note, Timing, ToozLock, note

TTL = 15


def test_a_lock_in_a_file_is_one_processs_until_given_back(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/locks"
    first, second, other = (ToozLock(url, TTL) for _ in range(3))
    assert first.acquire("Compute1")
    assert not second.acquire("compute1")
    assert other.acquire("compute2")
    assert first.renew()
    first.release()
    assert not first.renew()
    assert second.acquire("compute1")
    file = tmp_path / "locks/ironic-virt-compute1"
    file.rename(tmp_path / "moved")
    assert not second.renew()
    file.touch()
    assert not second.renew(), "another process may lock the new one"
    for lock in (second, other):
        lock.release()


def test_notes_that_can_not_be_read_are_left_out() -> None:
    good = Note(True, "machine-1", 1, "2026-11-26 10:00:00", "1.0")
    newer = msgspec.json.encode(good).decode().replace('"pid"', '"not_known_yet": 1, "pid"')
    assert note.load_notes(["{", "[]", "{}", b"\xff", newer]) == [good]


@pytest.mark.parametrize(
    "url",
    [
        "mysql://nova@db/nova",
        "postgresql://nova@db/nova",
        "etcd1:2379",
        "//:secret@redis1:6379",
        "redis://:1234/secret@redis1:6379",
        "etcd3+http://nova:secret?@etcd1:2379,etcd2:2379",
    ],
)
def test_what_can_not_hold_a_lease_is_refused(url: str) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match="standby_backend_url") as caught:
        ToozLock(url, TTL)
    assert "secret" not in str(caught.value)
    # What follows the address may have one.
    ToozLock("redis://:quiet@redis1:6379?sentinel=main&sentinel_password=s@cret", TTL)


@pytest.mark.parametrize("scheme", ["etcd3+http", "redis", "file"])
@pytest.mark.parametrize("ttl", [5, 15, 16, 60])
def test_a_standby_takes_over_after_about_the_ttl_and_a_margin(scheme: str, ttl: int) -> None:
    timing = Timing.of(scheme, ttl)
    assert ttl <= timing.lock + timing.settle <= ttl + 1
    assert timing.valid + timing.margin == pytest.approx(timing.lock)
    assert timing.margin >= ttl / 10 - 1e-9
    assert timing.renew < timing.valid / 3


@pytest.mark.parametrize("ttl", [7, 8, 10, 15, 30, 60])
def test_a_primary_cut_off_ends_before_the_next_holder_begins(ttl: int) -> None:
    """The replica has got no renewal for as long as one may take."""
    timing = Timing.of("redis", ttl)
    last_change = timing.longest_lag + 2 + timing.valid
    next_change = timing.lock - timing.renew + timing.settle
    assert timing.longest_lag >= 1
    assert next_change - last_change >= timing.margin - 1e-9


def test_without_the_option_nothing_of_it_is_loaded() -> None:
    script = """
import sys, threading
from oslo_config import cfg
from ironic_virt import conf as options, driver
from tests.compute_service import VirtAPI
conf = cfg.ConfigOpts()
options.register_opts(conf)
conf([])
conf.set_override("auth_type", "none", "ironic")
conf.set_override("endpoint_override", "http://127.0.0.1:1", "ironic")
made = driver.IronicDriver(conf, VirtAPI())
assert made.lease is None
made.let_go()
print([name for name in sys.modules if "tooz" in name or "ironic_virt.standby" in name])
print(threading.active_count())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["[]", "1"], done.stderr
