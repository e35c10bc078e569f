# SPDX-License-Identifier: Apache-2.0

"""Our programs as separate processes, forked from one that has imported all of them.

Most programs spend far more time on imports than on what a test has them do.  Don't use this to
test how a program starts.
"""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.preloading import Preloaded

COMMAND = "ironic_virt.cmd.shell"
COMPUTE = "ironic_virt.cmd.compute"
MANAGE = "ironic_virt.cmd.manage"
BAREMETAL = "ironicclient.shell"

SECONDS = 120.0
"""More than any program takes that ends by itself."""

_FURTHER = (
    *(COMPUTE, MANAGE, BAREMETAL),
    *("ironic_virt.compute.engine.process", "ironic_virt.driver.driver", "openstack.connection"),
    # What Ironic's client imports to run a command, in most of its time.
    *("cliff.interactive", "osc_lib.shell", "osc_lib.clientmanager", "keystoneauth1.noauth"),
    *(f"ironicclient.osc.v1.baremetal_{noun}" for noun in ("create", "node", "shard")),
)
_CLIENT = Path(__file__).with_name("preloaded_client.py")


@functools.cache
def preloaded() -> Preloaded:
    """The one of this process."""
    made = Preloaded(_FURTHER)
    atexit.register(made.close)
    return made


def run(module: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        code = (
            preloaded()
            .start(argv, stdout=out, stderr=err, environ=os.environ, module=module)
            .wait(SECONDS)
        )
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, code, out.read(), err.read())


def write_script(path: Path, module: str) -> None:
    """Make a script that is a program, for shells that have :func:`channel` open."""
    shell = shutil.which("sh")
    path.write_text(
        f'#!{shell}\nexec {sys.executable} -I -S {_CLIENT} {channel()} {module} "$@"\n'
    )
    path.chmod(0o755)


def channel() -> int:
    """The file that a shell has to inherit for its scripts."""
    return preloaded().channel.fileno()
