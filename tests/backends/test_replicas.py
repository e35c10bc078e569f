# SPDX-License-Identifier: Apache-2.0

"""A Redis with replicas: after a failover, the former primary may go on renewing locks."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from ironic_virt import exceptions
from ironic_virt.standby import ToozLock
from tests.backends.servers import Backend, backend
from tests.nova_deployment.processes import wait_for

TTL = 15


def is_ready(replication: dict[str, Any]) -> bool:
    """Whether a primary takes writes; without a demand for replicas it does not count them."""
    count = replication["connected_slaves"]
    return bool(count) and replication.get("min_slaves_good_slaves", count) > 0


@contextlib.contextmanager
def primary(**more: str) -> Iterator[Backend]:
    """A primary with one replica, as the primary itself says."""
    with backend("redis", **more) as made, backend("redis", replicaof=f"127.0.0.1 {made.port}"):
        with contextlib.closing(redis.Redis(port=made.port)) as client:
            wait_for("a replica", lambda: is_ready(client.info("replication")))
        yield made


@pytest.mark.parametrize(
    ("fewest", "lag", "message"),
    [
        ("1", "10", "min-replicas-max-lag 10: after a failover two processes could be active"),
        ("1", "5", "to 1 to 4"),
        ("0", "4", "min-replicas-to-write 0"),
    ],
)
def test_a_lag_that_does_not_fit_is_refused(fewest: str, lag: str, message: str) -> None:
    with (
        primary(min_replicas_to_write=fewest, min_replicas_max_lag=lag) as server,
        pytest.raises(exceptions.InvalidConfiguration, match=message),
    ):
        ToozLock(server.url, TTL).acquire("compute1")


def test_a_lag_that_fits_is_accepted() -> None:
    with primary(min_replicas_to_write="1", min_replicas_max_lag="4") as server:
        assert ToozLock(server.url, TTL).acquire("compute1")


def test_settings_that_can_not_be_read_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with backend("redis", rename_command="CONFIG hidden") as server:
        assert ToozLock(server.url, TTL).acquire("compute1")
    (line,) = [one.message for one in caplog.records if "[lease-replicas-unknown]" in one.message]
    assert "min-replicas-max-lag at most 4" in line
