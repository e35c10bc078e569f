# SPDX-License-Identifier: Apache-2.0

"""Fixtures for stories about the compute service."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.compute.service_stage import ServiceStage, empty_records, make_conf

DURATIONS = Durations(deploy=5, undeploy=3, clean=30, power=2)

SetStage = Callable[..., ServiceStage]


@pytest.fixture
def fake() -> FakeIronic:
    """A fake Ironic in virtual time."""
    return FakeIronic(durations=DURATIONS, power_follows_deploy=True)


@pytest.fixture
def records(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a database without any records."""
    template = tmp_path_factory.getbasetemp() / "template" / "records.template"
    empty_records(template, tmp_path)
    return tmp_path


@pytest.fixture
def set_stage(fake: FakeIronic, records: Path) -> Iterator[SetStage]:
    """Make compute services that share records and Ironic; they are stopped at the end."""
    made: list[ServiceStage] = []

    def make(
        host: str = "compute1", *, stage: dict[str, Any] | None = None, **sections: dict[str, Any]
    ) -> ServiceStage:
        made.append(ServiceStage(fake, make_conf(records, host, **sections), **(stage or {})))
        return made[-1]

    yield make
    for one in made:
        one.end()
