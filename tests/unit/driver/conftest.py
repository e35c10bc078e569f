# SPDX-License-Identifier: Apache-2.0

"""Fixtures for stories about the driver."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import virt
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.driver.stage import Service, SetStage, Stage, make_conf

DURATIONS = Durations(deploy=5, undeploy=3, clean=30, power=2)


@pytest.fixture
def fake() -> FakeIronic:
    """A fake Ironic in virtual time."""
    return FakeIronic(durations=DURATIONS)


@pytest.fixture
def set_stage(tmp_path: Path) -> Iterator[SetStage]:
    """Make stages; their watchers are stopped at the end."""
    made: list[Stage] = []

    def make(fake: FakeIronic, *, host: str = "compute1", **options: Any) -> Stage:
        stage = Stage(fake, make_conf(tmp_path, host, **options), Service(host))
        made.append(stage)
        return stage

    yield make
    for stage in made:
        stage.driver.cleanup_host()


@pytest.fixture
def stage(fake: FakeIronic, set_stage: SetStage) -> Stage:
    """A stage with the options' defaults."""
    return set_stage(fake)


@pytest.fixture
def our_stage(fake: FakeIronic, set_stage: SetStage) -> Stage:
    """A stage of the shard "ours"."""
    return set_stage(fake, shard_key="ours")


@pytest.fixture
def node(fake: FakeIronic) -> str:
    """The uuid of a free node with one port."""
    return fake.add_node(ports=1, resource_class="gold")


@pytest.fixture
def our_node(fake: FakeIronic) -> str:
    """The uuid of a free node with room for two VIFs, in the shard "ours"."""
    return fake.add_node(ports=2, resource_class="gold", shard="ours")


@pytest.fixture
def two_ports(fake: FakeIronic) -> str:
    """The uuid of a free node with room for two VIFs."""
    return fake.add_node(ports=2, resource_class="gold")


@pytest.fixture
def instance(stage: Stage, node: str) -> virt.Instance:
    """An instance that is active."""
    return stage.active(node)
