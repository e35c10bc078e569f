# SPDX-License-Identifier: Apache-2.0

"""What is known of the revisions without alembic, which a start has no time for."""

from __future__ import annotations

import subprocess
import sys

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


def test_a_service_starts_without_what_makes_tables() -> None:
    look = (
        "import ironic_virt.compute.engine.process, sys\n"
        "print(sorted({'alembic', 'oslo_concurrency'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_records_are_read_without_what_talks_to_ironic() -> None:
    look = (
        "import ironic_virt.compute.db, ironic_virt.conf.database, sys\n"
        "ironic_virt.conf.database.load([])\n"
        "print(sorted({'keystoneauth1', 'openstack', 'requests'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
