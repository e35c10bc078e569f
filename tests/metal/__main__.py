# SPDX-License-Identifier: Apache-2.0

"""Go through the life of a machine, or two: ``python -m tests.metal [--night] [STEP ...]``.

Each step prints what it has seen on the machine itself and how long it took; the last line has the
figures.  The exit code is 0 if all was as it should be.
"""

import argparse
import sys

from tests.metal import night, story
from tools import real_ironic
from tools.real_ironic import metal


def say(line: str) -> None:
    """Tell the user what goes on."""
    print(f"  {line}", flush=True)


def main() -> int:
    """Build what has to be built, and go through the story; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.metal", description=__doc__)
    parser.add_argument("--night", action="store_true", help="the steps with two machines")
    parser.add_argument("step", nargs="*", help="steps to go through (default: all)")
    arguments = parser.parse_args()
    steps = night.STEPS if arguments.night else story.STEPS
    if unknown := set(arguments.step) - steps.keys():
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    try:
        environment, images, built = metal.enter("tests.metal", say)
    except real_ironic.RealIronicError as error:
        print(error, file=sys.stderr)
        return 1
    with metal.Lab(images, environment, progress=say) as lab:
        return story.tell(
            lab,
            {name: step for name, step in steps.items() if name in (arguments.step or steps)},
            built=built,
            night=arguments.night,
        )


if __name__ == "__main__":
    sys.exit(main())
