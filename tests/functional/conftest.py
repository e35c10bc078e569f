# SPDX-License-Identifier: Apache-2.0

"""All that a functional test logs is searched for secrets at the end of the run."""

from pathlib import Path

import pytest

from tests.log_watch import watched_logs

__all__ = ["watched_logs"]


@pytest.fixture(autouse=True)
def _watch(watched_logs: Path) -> None:
    pass
