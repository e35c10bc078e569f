# SPDX-License-Identifier: Apache-2.0

"""A stage for each test, that nobody waits on any more at its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt.baremetal.waiting import intervals
from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer
from tests.clock import PATIENCE
from tests.functional.watcher.stage import Stage, wait_for_pollers_to_end


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    # Requests take real time, on a machine that may be busy; a slow one is not meant to fail.
    monkeypatch.setattr(intervals, "SHORTEST_TIMEOUT", PATIENCE)
    # Those of tests before, which may have ended without waiting for theirs.
    wait_for_pollers_to_end()
    with FakeIronicServer(FakeIronic(), idle=600) as server:
        stage = Stage(server, tmp_path / "ironic-virt.conf")
        yield stage
        stage.end()
    # Only now is a request without an answer over.
    wait_for_pollers_to_end()
