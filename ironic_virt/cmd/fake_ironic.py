# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fake-ironic``: a fake Ironic over HTTP, until a signal stops it.

Exits 0 on SIGTERM or SIGINT, 2 on bad arguments or if it can't listen.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ironic_virt import exceptions, exit_codes
from ironic_virt.cmd import arguments

_PROG = "ironic-virt-fake-ironic"
_EPILOG = """\
examples:
  ironic-virt-fake-ironic --nodes 100 --shards 4
      100 available nodes in the shards shard-1 to shard-4
  ironic-virt-fake-ironic --nodes 20 --conductor-groups rack1,rack2 \\
      --resource-class gold silver --deploy-time 5,30 --clean-time 20
      two kinds of slow nodes in two conductor groups
  ironic-virt-fake-ironic --port 6385 --max-version 1.81
      an Ironic that does not know shards
  openstack --os-auth-type none --os-endpoint http://127.0.0.1:6385 baremetal node list
      a client for it
"""

_TIMES = ("deploy", "undeploy", "clean", "inspect", "rescue", "power")
T = TypeVar("T")


def _as_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Let argparse show the message of a ValueError."""

    def convert(text: str) -> T:
        try:
            return parse(text)
        except ValueError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from None

    return convert


def _parse_port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def _parse_auth(text: str) -> str | None:
    kind, equals, token = text.partition("=")
    if text == "none":
        return None
    if kind == "token" and (token or not equals):
        return token or "fake-token"
    raise ValueError(f"{text!r} is neither none nor token nor token=SECRET")


def _make_parser() -> argparse.ArgumentParser:
    from ironic_virt.testing.fake_ironic import settings

    parser = argparse.ArgumentParser(
        prog=_PROG,
        description="Serve a fake OpenStack Ironic API from memory, whose nodes are deployed and"
        " cleaned at once, or as slowly as you say.",
        epilog=f"{_EPILOG}\n{exit_codes.epilog()}",
        formatter_class=arguments.Help,
    )
    listening = parser.add_argument_group("listening")
    listening.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    listening.add_argument(
        "--port", type=_as_type(_parse_port), default=6385, help="0: any free one (default: 6385)"
    )
    listening.add_argument(
        "--auth",
        type=_as_type(_parse_auth),
        default=None,
        metavar="none|token[=SECRET]",
        help="with token, requests need this X-Auth-Token (default: none; SECRET: fake-token)",
    )
    threads: Any = {"type": arguments.positive, "metavar": "N", "default": 16}
    listening.add_argument(
        "--threads", help="requests answered at a time (default: 16)", **threads
    )
    nodes = parser.add_argument_group("nodes")
    count: Any = {"type": arguments.count, "metavar": "N"}
    nodes.add_argument("--nodes", default=10, help="number of nodes (default: 10)", **count)
    shards = "spread them over the shards shard-1 to shard-N (default: no shards)"
    nodes.add_argument("--shards", default=0, help=shards, **count)
    nodes.add_argument(
        "--conductor-groups",
        type=lambda text: [name.strip().lower() for name in text.split(",")],
        default=[""],
        metavar="A,B",
        help="spread them over conductor groups, with a conductor each (default: the unnamed"
        " group)",
    )
    nodes.add_argument(
        "--resource-class",
        nargs="+",
        default=["baremetal"],
        metavar="NAME",
        help="spread them over resource classes (default: baremetal)",
    )
    nodes.add_argument(
        "--traits", nargs="+", default=[], metavar="TRAIT", help="traits of all nodes"
    )
    nodes.add_argument("--ports", default=1, help="ports of each node (default: 1)", **count)
    nodes.add_argument(
        "--console-interface",
        choices=("no-console", "fake-graphical"),
        help="fake-graphical gives them a VNC console, where nothing listens",
    )
    nodes.add_argument("--nmi", action="store_true", help="nodes accept an NMI")
    span = _as_type(settings.parse_span)
    times = parser.add_argument_group(
        "durations", "seconds: a number such as 5, or a range such as 5,30 (default: 0)"
    )
    for name in _TIMES:
        times.add_argument(f"--{name}-time", type=span, default=0.0, metavar="SECONDS")
    times.add_argument(
        "--wait-states",
        action="store_true",
        help="spend the second half in a ... wait state, unlocked, as real hardware does",
    )
    behaviour = parser.add_argument_group("behaviour")
    version: Any = {"type": _as_type(settings.parse_version), "metavar": "1.N"}
    behaviour.add_argument("--min-version", default=settings.MIN_VERSION, **version)
    behaviour.add_argument("--max-version", default=settings.MAX_VERSION, **version)
    behaviour.add_argument("--no-clean", action="store_true", help="no automated cleaning")
    behaviour.add_argument(
        "--network-interface",
        choices=("flat", "noop", "neutron"),
        default="flat",
        help="noop forgets VIFs (default: flat)",
    )
    seed = "the same seed gives the same UUIDs and durations (default: 0)"
    behaviour.add_argument("--seed", default=0, help=seed, **count)
    output = parser.add_argument_group("output")
    output.add_argument("--quiet", action="store_true", help="don't log requests")
    output.add_argument(
        "--json", action="store_true", help="print the address and the nodes as one line of JSON"
    )
    return parser


def _make_fake(args: argparse.Namespace) -> Any:
    """The fake Ironic that the arguments ask for, with its nodes."""
    from ironic_virt.testing import fake_ironic

    times = {name: getattr(args, f"{name}_time") for name in _TIMES}
    groups = list(dict.fromkeys(args.conductor_groups))
    fake = fake_ironic.FakeIronic(
        clock=fake_ironic.RealClock(),
        journal_size=10_000,
        min_version=args.min_version,
        max_version=args.max_version,
        durations=fake_ironic.Durations(**times, unrescue=args.rescue_time),
        conductors=tuple(
            fake_ironic.Conductor(f"conductor-{number}", group)
            for number, group in enumerate(groups, 1)
        ),
        automated_clean=not args.no_clean,
        wait_states=args.wait_states,
        power_follows_deploy=True,
        network_interface=args.network_interface,
        token=args.auth,
        supports_nmi=args.nmi,
        seed=args.seed,
    )
    for number in range(args.nodes):
        fake.add_node(
            conductor_group=groups[number % len(groups)],
            resource_class=args.resource_class[number % len(args.resource_class)],
            shard=f"shard-{number % args.shards + 1}" if args.shards else None,
            traits=args.traits,
            ports=args.ports,
            console_interface=args.console_interface,
        )
    return fake


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    :param argv: its arguments; those of the process by default.
    :returns: the exit status.
    """
    try:
        with arguments.complaining(argv):
            return _serve_fake(argv)
    except ModuleNotFoundError as exc:
        print(f"{_PROG}: {exceptions.ExtrasMissing(exc.name, 'testing')}", file=sys.stderr)
        return 1


def _serve_fake(argv: Sequence[str] | None) -> int:
    from ironic_virt.testing.fake_ironic import FakeIronicServer

    parser = _make_parser()
    args = parser.parse_args(argv)
    if args.min_version > args.max_version:
        parser.error("argument --min-version: it is above --max-version")
    fake = _make_fake(args)
    if not args.quiet:
        fake.requests.listener = log_request
    server = FakeIronicServer(fake, host=args.host, port=args.port, threads=args.threads)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        server.start()
    except (OSError, OverflowError) as exc:
        # The server's own error contains that of the socket.
        match = re.search(r"\[Errno \d+\] ([^)]+)", str(exc))
        reason = match[1] if match else str(exc)
        print(f"{_PROG}: can't listen on {args.host}:{args.port}: {reason}", file=sys.stderr)
        return 2
    facts = {"url": server.url, "nodes": args.nodes, "shards": args.shards, "pid": os.getpid()}
    line = f"Fake Ironic with {args.nodes} nodes at {server.url}"
    print(json.dumps(facts) if args.json else line, flush=True)
    stop.wait()
    server.stop()
    return 0


def log_request(entry: Any) -> None:
    """Print a request with its answer, in one line."""
    query = f"?{entry.query}" if entry.query else ""
    fault = f" ({entry.fault})" if entry.fault else ""
    # The client gets its answer even if nobody reads these lines.
    with contextlib.suppress(OSError):
        print(f"{entry.method} {entry.path}{query} {entry.status}{fault}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
