# SPDX-License-Identifier: Apache-2.0

"""Go through a machine's life: ``python -m tests.metal [--keep] [STEP ...]``.

Each step prints what it has seen on the machine itself and how long it took; the last line has the
figures.  The exit code is 0 if all was as it should be.
"""

import argparse
import os
import sys
import time

from tests.metal import story
from tools import real_ironic
from tools.real_ironic import metal

INSIDE = "IRONIC_VIRT_METAL_INSIDE"


def say(line: str) -> None:
    """Tell the user what goes on."""
    print(f"  {line}", flush=True)


def main() -> int:
    """Build what has to be built, and go through the story; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.metal", description=__doc__)
    parser.add_argument(
        "step", nargs="*", help=f"steps to go through: {', '.join(story.STEPS)} (default: all)"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.step) - story.STEPS.keys():
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    if why := metal.missing():
        print(why, file=sys.stderr)
        return 2
    began = time.monotonic()
    try:
        environment = real_ironic.ensure_environment(progress=say)
        images = metal.ensure_images(progress=say)
    except real_ironic.RealIronicError as error:
        print(error, file=sys.stderr)
        return 1
    if INSIDE not in os.environ:
        os.environ[INSIDE] = f"{time.monotonic() - began:.0f}"
        command = [sys.executable, "-m", "tests.metal", *arguments.step]
        program, *rest = metal.namespaces_command(command)
        sys.stdout.flush()
        os.execvp(program, [program, *rest])
    # Nothing in there is on the way to anywhere else.
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        os.environ.pop(name, None)
    with metal.Lab(images, environment, progress=say) as lab:
        return story.tell(lab, arguments.step, built=float(os.environ[INSIDE]))


if __name__ == "__main__":
    sys.exit(main())
