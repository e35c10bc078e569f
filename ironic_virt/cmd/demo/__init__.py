# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt demo``: an Ironic and a compute service of their own, and one journey.

The service is a process as any other, with an ini file and records in a directory that goes
with it; the journey types the commands of a user and looks at the nodes in Ironic by itself.
"""

import argparse
from typing import Any

from ironic_virt import exceptions
from ironic_virt.cmd import arguments
from ironic_virt.cmd.commands import Command, argument

SCHEDULER, IRONIC = "scheduler", "ironic"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 to 3600")
    return seconds


class Demo(Command):
    """Watch servers being built on an Ironic of their own, tried, and deleted.

    Starts the fake Ironic on this host and a compute service for it with records of its own;
    then types the commands that a user would, and shows what they print. Afterwards everything
    is gone again, also when it is interrupted.
    """

    tells_of_interrupts = True
    epilog = """\
examples:
  ironic-virt demo                            in a quarter of a minute
  ironic-virt demo --nodes 20 --servers 12    more of everything
  ironic-virt demo -v                         with the service's log on standard error

exit codes:
  0 all as it should be, 1 something failed, 2 wrong arguments, 130 interrupted
"""

    ironic: Any = None
    ironic_name = "the fake Ironic"
    takes = (
        argument(
            "--nodes",
            type=arguments.positive,
            default=5,
            metavar="N",
            help="How many nodes it has (default: %(default)s).",
        ),
        argument(
            "--servers",
            dest="instances",
            type=arguments.positive,
            default=3,
            metavar="N",
            help="How many servers to build at once (default: %(default)s).",
        ),
        argument(
            "--deploy-time",
            type=_seconds,
            default=2.0,
            metavar="SECONDS",
            help="How long a deployment takes, about (default: %(default)s).",
        ),
        argument(
            "--node-selection",
            choices=(SCHEDULER, IRONIC),
            default=SCHEDULER,
            help="Who picks the nodes, see the option of that name (default: %(default)s).",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Run the demo."""
        if parsed_args.instances > parsed_args.nodes:
            self.refuse(
                f"argument --servers: {parsed_args.instances} don't fit on "
                f"{parsed_args.nodes} nodes (--nodes)"
            )
        try:
            from ironic_virt.cmd.demo import run
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("ironic_virt"):
                raise
            raise exceptions.ExtrasMissing(error.name, "demo") from error
        run.run(
            run.Settings(
                nodes=parsed_args.nodes,
                instances=parsed_args.instances,
                deploy_time=parsed_args.deploy_time,
                node_selection=parsed_args.node_selection,
                verbose=self.app.options.verbose_level > self.app.DEFAULT_VERBOSE_LEVEL,
            ),
            self.ironic,
            self.ironic_name,
        )
