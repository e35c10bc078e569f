# SPDX-License-Identifier: Apache-2.0

"""``python -m tools.real_ironic``: a real Ironic until Ctrl-C."""

import argparse
import signal
import sys
from types import FrameType

from tools.real_ironic import errors
from tools.real_ironic.configuration import Options
from tools.real_ironic.database import MARIADB, SQLITE
from tools.real_ironic.nodes import NodeTemplate, clone_nodes, create_nodes
from tools.real_ironic.service import RealIronic

# More than this, and making them one by one takes longer than a user waits.
_CREATED_ONE_BY_ONE = 50


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.real_ironic",
        description="Run a real Ironic with fake hardware until Ctrl-C.",
    )
    parser.add_argument("--nodes", type=int, default=0, help="how many nodes to create")
    parser.add_argument("--database", choices=(SQLITE, MARIADB), default=SQLITE)
    parser.add_argument("--deploy-delay", default="0", help="seconds, or a range: 5,30")
    parser.add_argument("--max-api-version", help="newest API version to speak, for example 1.51")
    parser.add_argument("--conductor-group", default="", help="the conductor's group")
    return parser


def _make_nodes(ironic: RealIronic, count: int, template: NodeTemplate) -> None:
    if count <= _CREATED_ONE_BY_ONE:
        create_nodes(ironic, count, template)
    else:
        source = create_nodes(ironic, 1, template)[0]
        clone_nodes(ironic, source, count - 1, name="node-{}-clone")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run it; 0 after Ctrl-C or SIGTERM, 1 when it can't be started."""
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        options = Options(
            delays={"deploy": arguments.deploy_delay},
            conductor_group=arguments.conductor_group,
            max_api_version=arguments.max_api_version,
        )
        with RealIronic(options, database=arguments.database, progress=print) as ironic:
            template = NodeTemplate(conductor_group=arguments.conductor_group)
            _make_nodes(ironic, arguments.nodes, template)
            print(f"{arguments.nodes} nodes. Stop it with Ctrl-C.", flush=True)
            while ironic.process.exit_status is None:
                signal.pause()
    except KeyboardInterrupt:
        print("Stopped.")
    except (errors.RealIronicError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
