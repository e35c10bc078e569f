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


def test_a_service_starts_without_alembic() -> None:
    look = "import ironic_virt.compute.process, sys; print('alembic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
