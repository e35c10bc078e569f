# SPDX-License-Identifier: Apache-2.0

"""Fixtures for stories about the compute service."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from ironic_virt.compute.db import engine
from ironic_virt.testing.fake_ironic import Durations, FakeIronic
from tests.unit.compute.service_stage import GOLD, ServiceStage, empty_records, make_conf

DURATIONS = Durations(deploy=5, undeploy=3, clean=30, power=2)

SetStage = Callable[..., ServiceStage]


@pytest.fixture
def fake() -> FakeIronic:
    """A fake Ironic in virtual time."""
    return FakeIronic(durations=DURATIONS, power_follows_deploy=True)


@pytest.fixture(scope="session")
def engines_by_url() -> dict[sa.URL, sa.Engine]:
    """One engine for each database: with it, statements are compiled once and not again."""
    return {}


@pytest.fixture
def records(tmp_path_factory, engines_by_url, monkeypatch) -> Path:
    """A directory with a database without any records, and with nothing else."""
    make_engine = engine.make_engine

    def shared_engine(conf: cfg.ConfigOpts) -> sa.Engine:
        url = engine.connection_url(conf)
        if url not in engines_by_url:
            engines_by_url[url] = make_engine(conf)
        return engines_by_url[url]

    base = tmp_path_factory.getbasetemp()
    # The same path for each test: it is the engine's.
    directory = base / "records"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    empty_records(base / "template" / "records.template", directory)
    monkeypatch.setattr(engine, "make_engine", shared_engine)
    return directory


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


@pytest.fixture
def nodes(fake: FakeIronic) -> list[str]:
    """The nodes; a module may have others."""
    return fake.add_nodes(3, **GOLD)


@pytest.fixture
def node(nodes: list[str]) -> str:
    """The first of them."""
    return nodes[0]


@pytest.fixture
def stage(set_stage: SetStage, nodes: list[str]) -> ServiceStage:
    """A compute service that has them."""
    return set_stage().begin()


@pytest.fixture
def uuid(stage: ServiceStage) -> str:
    """An instance that is active on the first of them."""
    uuid = stage.build()
    stage.fake.advance(60)
    stage.service.report()
    return uuid
