# SPDX-License-Identifier: Apache-2.0

"""The way into the lab: what it is made of is built outside, and used in its namespaces."""

import os
import sys
import time

from tools.real_ironic.environment import IronicEnvironment, Progress, ensure_environment
from tools.real_ironic.metal import host
from tools.real_ironic.metal.images import Images, ensure_images

_INSIDE = "IRONIC_VIRT_METAL_INSIDE"
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")


def enter(module: str, progress: Progress) -> tuple[IronicEnvironment, Images, float]:
    """Run ``python -m module`` again in the lab's namespaces; there, return what it needs.

    :returns: the real Ironic, the images, and how many seconds it took to build them.
    :raises RealIronicError: they can't be built.
    :raises SystemExit: 2: something of the host's is missing, which has been printed.
    """
    if why := host.missing():
        print(why, file=sys.stderr)
        raise SystemExit(2)
    began = time.monotonic()
    environment = ensure_environment(progress=progress)
    images = ensure_images(progress=progress)
    if _INSIDE not in os.environ:
        os.environ[_INSIDE] = f"{time.monotonic() - began:.0f}"
        program, *rest = host.namespaces_command([sys.executable, "-m", module, *sys.argv[1:]])
        sys.stdout.flush()
        os.execvp(program, [program, *rest])
    # Nothing in there is on the way to anywhere else.
    for name in _PROXIES:
        os.environ.pop(name, None)
    return environment, images, float(os.environ[_INSIDE])
