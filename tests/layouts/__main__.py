# SPDX-License-Identifier: Apache-2.0

"""Boot a server in each layout: ``python -m tests.layouts --wheel FILE --deb FILE [LAYOUT ...]``.

For each, Nova's services run from that installation as processes of their own, over the real
Ironic.  The last line says in how many a server was booted and deleted; the exit code is 0 if
that is all of them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.layouts.installations import CHECKOUT, Broken, Debian, VirtualEnvironments
from tests.nova_deployment import figures
from tests.nova_deployment.deployment import RESOURCE_CLASS, Deployment, Installation
from tests.nova_deployment.people import Operator
from tools import real_ironic

NAMESPACE = "IRONIC_VIRT_LAYOUTS_NAMESPACE"
KEPT = CHECKOUT / ".envs" / "layouts"


def boots(installation: Installation, directory: Path) -> str:
    """Boot and delete a server.

    :returns: what nova-compute has said of the driver.
    """
    ironic = real_ironic.RealIronic(database=real_ironic.MARIADB, progress=say)

    def make_nodes(operator: Operator) -> None:
        operator.create_nodes(ironic, 2, RESOURCE_CLASS, shard="a", seed=1)

    with Deployment(
        directory,
        ironic,
        computes={"compute-a": {"shard": "a"}},
        make_nodes=make_nodes,
        steps=figures.Steps(),
        progress=say,
        installation=installation,
    ) as deployment:
        user = deployment.user
        user.boot(1)
        (server,) = user.wait_for_servers("a server", lambda server: server.idle)
        if server.status != "ACTIVE":
            raise Broken(f"{server}\n{deployment.trouble()}")
        user.delete([server])
        deployment.wait_for_no_leaks()
        log = deployment.computes["compute-a"].text()
    (loaded,) = re.findall(r"Loaded the driver of [^\n\x1b]*", log)
    return str(loaded)


def say(line: str) -> None:
    """Tell the user what goes on."""
    print(f"  {line}", flush=True)


def main() -> int:
    """Go through the layouts; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.layouts", description=__doc__)
    parser.add_argument("--wheel", type=Path, required=True, help="the wheel to install")
    parser.add_argument("--deb", type=Path, required=True, help="the Debian package to install")
    parser.add_argument("layout", nargs="*", help="names of layouts; none: all")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("a root of Debian can be made and entered by root only")
    if NAMESPACE not in os.environ:
        # What is mounted below is gone when this ends, in whatever way.
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-m"]
        os.environ[NAMESPACE] = "1"
        # Nothing but the installation may lead to our package.
        os.environ.pop("PYTHONPATH", None)
        os.execvp("unshare", [*command, "tests.layouts", *sys.argv[1:]])
    KEPT.mkdir(parents=True, exist_ok=True)
    environments = VirtualEnvironments(KEPT, arguments.wheel.resolve())
    debian = Debian(KEPT, arguments.wheel.resolve(), arguments.deb.resolve())
    layouts = {
        "wheels": environments.wheels,
        "editable": environments.editable,
        "system-site-packages": debian.system_site_packages,
        "deb": debian.package,
        "usr-local": debian.usr_local,
    }
    if unknown := set(arguments.layout) - layouts.keys():
        parser.error(f"no layout {', '.join(unknown)}; there are: {', '.join(layouts)}")
    chosen = arguments.layout or [*layouts]
    good = 0
    for name in chosen:
        began = time.monotonic()
        print(f"{name}: {(layouts[name].__doc__ or '').splitlines()[0]}", flush=True)
        directory = Path(tempfile.mkdtemp(prefix=f"ironic-virt-layout-{name}-"))
        try:
            loaded = boots(layouts[name](), directory)
            if layouts[name].__self__ is debian:
                debian.leave()
        except (Broken, AssertionError, real_ironic.RealIronicError) as error:
            print(f"{name}: FAILED, logs are in {directory}\n{error}", flush=True)
            continue
        shutil.rmtree(directory, ignore_errors=True)
        good += 1
        seconds = time.monotonic() - began
        print(f"{name}: a server was booted and deleted ({seconds:.0f} s). {loaded}", flush=True)
    print(f"layouts: {good} of {len(chosen)}")
    return int(good < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
