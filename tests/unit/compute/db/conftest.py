# SPDX-License-Identifier: Apache-2.0

"""Options that name a database."""

import pathlib
from collections.abc import Callable

import pytest
from oslo_config import cfg

from ironic_virt.conf import database

Load = Callable[..., cfg.ConfigOpts]


@pytest.fixture
def load(tmp_path: pathlib.Path) -> Load:
    """Options with this connection, or with the default."""

    def from_lines(connection: str | None = None, more: str = "") -> cfg.ConfigOpts:
        path = tmp_path / "records.conf"
        lines = f"connection = {connection}\n" if connection else ""
        path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/state\n[database]\n{lines}{more}\n")
        return database.load([str(path)])

    return from_lines
