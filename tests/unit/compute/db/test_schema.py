# SPDX-License-Identifier: Apache-2.0

"""What a start and a command have no time to load."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("statements", "heavy"),
    [
        ("import ironic_virt.compute.engine.process", {"oslo_concurrency"}),
        (
            "import ironic_virt.compute.db, ironic_virt.conf.database as conf; conf.load([])",
            {"keystoneauth1", "openstack", "requests"},
        ),
    ],
    ids=["a service", "records without Ironic's"],
)
def test_nothing_is_loaded_in_vain(statements: str, heavy: set[str]) -> None:
    look = f"import sys; {statements}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
