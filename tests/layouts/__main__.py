# SPDX-License-Identifier: Apache-2.0

"""Boot a server in each layout: ``python -m tests.layouts --wheel FILE --deb FILE [LAYOUT ...]``.

For each, Nova's services run from that installation as separate processes, over the real
Ironic, first with Nova's own driver and a server; then the README's words for Nova are followed.
The last line says in how many layouts that server was kept, another one booted, and both deleted;
the exit code is 0 if that is all of them.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.layouts import words
from tests.layouts.installations import CHECKOUT, Broken, Debian, VirtualEnvironments, run
from tests.nova_deployment import figures
from tests.nova_deployment.deployment import RESOURCE_CLASS, Deployment, Installation
from tests.nova_deployment.people import Operator, Server
from tools import real_ironic

NAMESPACE = "IRONIC_VIRT_LAYOUTS_NAMESPACE"
KEPT = CHECKOUT / ".envs" / "layouts"
HOST = "compute-a"
SERVES = {"shard": "a"}


def boots(installation: Installation, directory: Path) -> str:
    """Follow the README with a server that Nova's own driver has built; then build another.

    :returns: what nova-compute has said of the driver.
    """
    ironic = real_ironic.RealIronic(database=real_ironic.MARIADB, progress=say)

    def make_nodes(operator: Operator) -> None:
        operator.create_nodes(ironic, 2, RESOURCE_CLASS, shard="a", seed=1)

    with Deployment(
        directory,
        ironic,
        computes={HOST: {"driver": "ironic.IronicDriver", **SERVES}},
        make_nodes=make_nodes,
        steps=figures.Steps(),
        progress=say,
        installation=installation,
    ) as deployment:
        (former,) = boot(deployment, 1)
        _, *arguments = words.command("ironic-virt-fleet")
        say(f"Nova's own driver has built {former.uuid}")
        run(deployment.fleet(*arguments))
        say("'ironic-virt-fleet check' finds nothing")
        compute = deployment.computes[HOST]
        compute.stop()
        driver = words.options()["DEFAULT"]["compute_driver"]
        deployment.configure(HOST, HOST, driver, **SERVES)
        deployment.start_again(HOST)
        servers = boot(deployment, 2)
        if former not in servers:
            raise Broken(f"after the switch {former} is another in {servers}")
        deployment.user.delete(servers)
        deployment.wait_for_no_leaks()
        log = compute.text()
    (loaded,) = re.findall(r"Loaded the driver of [^\n\x1b]*", log)
    return str(loaded)


def boot(deployment: Deployment, servers: int) -> list[Server]:
    """Build a server, and return all servers.

    :raises Broken: there are not so many active ones.
    """
    deployment.user.boot(1)
    built = deployment.user.wait_for_servers("a server", lambda server: server.idle)
    if [server.status for server in built] != ["ACTIVE"] * servers:
        raise Broken(f"{built}\n{deployment.trouble()}")
    return built


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
        # What is mounted below is gone when this process ends.
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
