# SPDX-License-Identifier: Apache-2.0

"""What a service asks of the driver: each argument is read."""

import ast
import inspect
import subprocess
import sys
import textwrap

import pytest

from ironic_virt.driver import IronicDriver

METHODS = sorted(name for name, _ in inspect.getmembers(IronicDriver, inspect.isfunction))


@pytest.mark.parametrize("name", METHODS)
def test_the_driver_reads_every_argument(name: str) -> None:
    (function,) = ast.parse(textwrap.dedent(inspect.getsource(getattr(IronicDriver, name)))).body
    assert isinstance(function, ast.FunctionDef)
    given = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
    assert given <= {one.id for one in ast.walk(function) if isinstance(one, ast.Name)} | {"self"}


def test_what_only_reads_flavors_and_names_loads_no_http() -> None:
    loads = "import sys; from ironic_virt.driver import resources; "
    loads += "from ironic_virt.driver.deploy import instance_info, steps; "
    loads += "from ironic_virt.driver.pools import names; "
    heavy = "sys.exit(bool({'requests', 'keystoneauth1', 'openstack'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", loads + heavy], check=False).returncode == 0
