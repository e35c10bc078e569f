# SPDX-License-Identifier: Apache-2.0

"""The real Ironic of the benchmarks: one for each, or one for all of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Self

import pytest

import real_ironic
from benchmarks import ironic
from ironic_virt.testing.fake_ironic import FakeIronic

URL = "http://ironic.test"


class Started:
    """A fake Ironic in the place of each real one, and how often one was started."""

    def __init__(self) -> None:
        self.fake = FakeIronic()
        self.starts = self.stops = 0

    def real_ironic(self, **options: Any) -> Started:
        return self

    @property
    def url(self) -> str:
        return URL

    def __enter__(self) -> Self:
        self.starts += 1
        return self

    def __exit__(self, *error: object) -> None:
        self.stops += 1


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Started]:
    found = Started()
    monkeypatch.setattr(real_ironic, "RealIronic", found.real_ironic)
    with found.fake.mock(URL):
        yield found


def test_each_benchmark_has_an_ironic_of_its_own(started: Started) -> None:
    for number in (1, 2):
        with ironic.without_nodes(lambda _: None):
            assert (started.starts, started.stops) == (number, number - 1)
    assert started.stops == 2


def test_one_that_is_kept_starts_once_and_each_benchmark_leaves_it_empty(
    started: Started,
) -> None:
    fake = started.fake
    with ironic.kept():
        assert not started.starts
        for _ in range(2):
            with ironic.without_nodes(lambda _: None) as found:
                assert found.url == URL
                _, deployed, away = fake.add_nodes(3)
                instance = str(uuid.UUID(int=1))
                fake.set_node(deployed, instance_uuid=instance, provision_state="active")
                fake.set_node(away, maintenance=True)
            assert not fake.nodes()
        assert (started.starts, started.stops) == (1, 0)
    assert started.stops == 1
