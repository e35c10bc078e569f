# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt demo``: starts an Ironic and a compute service, and makes one journey.

The service is an ordinary process, with an ini file and records in a temporary directory; the
journey types the commands of a user, and also looks at the nodes in Ironic.
"""

import argparse
from typing import Any

from ironic_virt.cmd import arguments, configured
from ironic_virt.cmd.commands import Command, argument


class Demo(Command):
    """Watch servers being built on a fake Ironic, used, and deleted.

    Starts the fake Ironic on this host, and a compute service for it with its own records;
    then runs the commands that a user would type, and shows what they print. At the end, also
    after Ctrl-C, everything is removed.
    """

    examples = """\
demo                            takes a quarter of a minute
demo --nodes 20 --servers 12    more of everything
demo -v                         with the service's log on standard error
"""
    codes = "0 success, 1 something failed, 2 wrong arguments, 130 interrupted"
    ironic: Any = None
    ironic_name = "the fake Ironic"
    takes = (
        argument(
            *("--nodes N", "Number of nodes (default: %(default)s)."),
            type=arguments.positive,
            default=5,
        ),
        argument(
            "--servers N",
            "Number of servers to build at once (default: %(default)s).",
            type=arguments.positive,
            default=3,
        ),
        argument(
            "--deploy-time SECONDS",
            "About how long a deployment takes (default: %(default)s).",
            default=2.0,
        ),
        argument(
            "--node-selection",
            "Who picks the nodes, as by the option of that name (default: %(default)s).",
            choices=("scheduler", "ironic"),
            default="scheduler",
        ),
    )

    def check(self, args: argparse.Namespace) -> None:
        if (servers := args.servers) > args.nodes:
            self.refuse(f"argument --servers: {servers} don't fit on {args.nodes} nodes (--nodes)")

    def act(self, args: argparse.Namespace) -> None:
        with configured.extra("demo"):
            from ironic_virt.cmd.demo import run
        args.verbose = self.app.options.verbose_level > self.app.DEFAULT_VERBOSE_LEVEL
        run.run(args, self.ironic, self.ironic_name)
