# SPDX-License-Identifier: Apache-2.0

"""What is known of the revisions without alembic, which a start has no time for."""

from __future__ import annotations

import subprocess
import sys

import pytest
from alembic import config, script

from ironic_virt.compute.db import schema


def test_the_revisions_are_those_that_alembic_finds() -> None:
    settings = config.Config()
    settings.set_main_option("script_location", str(schema._MIGRATIONS))
    found = script.ScriptDirectory.from_config(settings)
    assert list(schema._revisions()) == [
        one.revision for one in reversed([*found.walk_revisions()])
    ]
    assert schema.head() == found.get_current_head()


@pytest.mark.parametrize(
    ("statements", "heavy"),
    [
        ("import ironic_virt.compute.engine.process", {"alembic", "oslo_concurrency"}),
        (
            "import ironic_virt.compute.db, ironic_virt.conf.database as conf; conf.load([])",
            {"keystoneauth1", "openstack", "requests"},
        ),
    ],
    ids=["a service starts without what makes tables", "records are read without Ironic's"],
)
def test_nothing_is_loaded_in_vain(statements: str, heavy: set[str]) -> None:
    look = f"import sys; {statements}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
