# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fake-ironic``: a fake Ironic over HTTP, until it is told to stop.

Exits 0 on SIGTERM or SIGINT, 2 on bad arguments, also if it can't listen there.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ironic_virt import exceptions, exit_codes
from ironic_virt.cmd import arguments

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

T = TypeVar("T")


def _argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Let argparse show the message of a ValueError."""

    def convert(text: str) -> T:
        try:
            return parse(text)
        except ValueError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from None

    return convert


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


def _auth(text: str) -> str | None:
    kind, equals, token = text.partition("=")
    if text == "none":
        return None
    if kind == "token" and (token or not equals):
        return token or "fake-token"
    raise ValueError(f"{text!r} is neither none nor token nor token=SECRET")


def _names(text: str) -> list[str]:
    return [name.strip().lower() for name in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    from ironic_virt.testing.fake_ironic import settings

    parser = argparse.ArgumentParser(
        prog="ironic-virt-fake-ironic",
        description="Serve a fake of OpenStack Ironic's API from memory, with nodes that are"
        " deployed and cleaned in no time or in as much as you say.",
        epilog=f"{_EPILOG}\n{exit_codes.epilog()}",
        formatter_class=arguments.Help,
    )
    where = parser.add_argument_group("where it listens")
    where.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    where.add_argument(
        "--port", type=_argument(_port), default=6385, help="0 takes a free one (default: 6385)"
    )
    where.add_argument(
        "--auth",
        type=_argument(_auth),
        default=None,
        metavar="none|token[=SECRET]",
        help="with token, requests need this X-Auth-Token (default: none; SECRET: fake-token)",
    )
    where.add_argument(
        "--threads",
        type=arguments.positive,
        default=16,
        metavar="N",
        help="requests answered at a time (default: %(default)s)",
    )
    nodes = parser.add_argument_group("its nodes")
    nodes.add_argument(
        "--nodes", type=arguments.count, default=10, metavar="N", help="how many (default: 10)"
    )
    nodes.add_argument(
        "--shards",
        type=arguments.count,
        default=0,
        metavar="K",
        help="spread them over the shards shard-1 to shard-K (default: no shards)",
    )
    nodes.add_argument(
        "--conductor-groups",
        type=_names,
        default=[""],
        metavar="A,B",
        help="spread them over conductor groups, with a conductor each (default: the one"
        " without a name)",
    )
    nodes.add_argument(
        "--resource-class",
        nargs="+",
        default=["baremetal"],
        metavar="NAME",
        help="spread them over resource classes (default: baremetal)",
    )
    nodes.add_argument(
        "--traits", nargs="+", default=[], metavar="TRAIT", help="traits that all of them have"
    )
    nodes.add_argument(
        "--ports",
        type=arguments.count,
        default=1,
        metavar="N",
        help="network ports of each (default: 1)",
    )
    nodes.add_argument(
        "--console-interface",
        choices=("no-console", "fake-graphical"),
        help="with fake-graphical they have a VNC console, at which nothing listens",
    )
    nodes.add_argument("--nmi", action="store_true", help="they can be sent an NMI")
    span = _argument(settings.parse_span)
    times = parser.add_argument_group(
        "how long things take", "seconds: a number such as 5, or a range such as 5,30 (default: 0)"
    )
    for name in ("deploy", "undeploy", "clean", "inspect", "rescue", "power"):
        times.add_argument(f"--{name}-time", type=span, default=0.0, metavar="SECONDS")
    times.add_argument(
        "--wait-states",
        action="store_true",
        help="spend the second half in a ... wait state, unlocked, as real hardware does",
    )
    behaviour = parser.add_argument_group("what it is like")
    version = _argument(settings.parse_version)
    behaviour.add_argument(
        "--min-version", type=version, default=settings.MIN_VERSION, metavar="1.N"
    )
    behaviour.add_argument(
        "--max-version", type=version, default=settings.MAX_VERSION, metavar="1.N"
    )
    behaviour.add_argument("--no-clean", action="store_true", help="no automated cleaning")
    behaviour.add_argument(
        "--network-interface",
        choices=("flat", "noop", "neutron"),
        default="flat",
        help="noop forgets VIFs (default: flat)",
    )
    behaviour.add_argument(
        "--seed",
        type=arguments.count,
        default=0,
        metavar="N",
        help="the same seed gives the same uuids and durations (default: 0)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--quiet", action="store_true", help="no line for each request")
    output.add_argument(
        "--json", action="store_true", help="tell the address and the nodes as one line of JSON"
    )
    return parser


def _make_fake(args: argparse.Namespace) -> Any:
    """The fake Ironic that the arguments ask for, with its nodes."""
    from ironic_virt.testing import fake_ironic

    durations = fake_ironic.Durations(
        deploy=args.deploy_time,
        undeploy=args.undeploy_time,
        clean=args.clean_time,
        inspect=args.inspect_time,
        rescue=args.rescue_time,
        unrescue=args.rescue_time,
        power=args.power_time,
    )
    groups = list(dict.fromkeys(args.conductor_groups))
    fake = fake_ironic.FakeIronic(
        clock=fake_ironic.RealClock(),
        journal_size=10_000,
        min_version=args.min_version,
        max_version=args.max_version,
        durations=durations,
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
    return run("ironic-virt-fake-ironic", argv, _run)


def run(
    prog: str, argv: Sequence[str] | None, command: Callable[[Sequence[str] | None], int]
) -> int:
    """Run a command that needs packages of the extra ``testing``, and return its exit code."""
    try:
        with arguments.complaining(argv):
            return command(argv)
    except ModuleNotFoundError as exc:
        print(f"{prog}: {exceptions.ExtrasMissing(exc.name, 'testing')}", file=sys.stderr)
        return 1


def _run(argv: Sequence[str] | None) -> int:
    from ironic_virt.testing.fake_ironic import FakeIronicServer

    parser = _parser()
    args = parser.parse_args(argv)
    if args.min_version > args.max_version:
        parser.error("argument --min-version: it is above --max-version")
    fake = _make_fake(args)
    if not args.quiet:
        fake.requests.listener = log_request
    server = FakeIronicServer(fake, host=args.host, port=args.port, threads=args.threads)
    told = {"nodes": args.nodes, "shards": args.shards}
    return serve(parser.prog, server, args, f"Fake Ironic with {args.nodes} nodes", told)


def serve(
    prog: str, server: Any, args: argparse.Namespace, name: str, told: Mapping[str, Any]
) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code.

    :param args: with ``host`` and ``port``, for an error, and ``json``.
    :param name: what it is, for people.
    :param told: what programs are told by ``--json`` beside the address and the process's id.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        server.start()
    except (OSError, OverflowError) as exc:
        # The server's own error has that of the socket inside.
        why = re.search(r"\[Errno \d+\] ([^)]+)", str(exc))
        reason = why[1] if why else str(exc)
        print(f"{prog}: can't listen on {args.host}:{args.port}: {reason}", file=sys.stderr)
        return 2
    ready = {"url": server.url, **told, "pid": os.getpid()}
    print(json.dumps(ready) if args.json else f"{name} at {server.url}", flush=True)
    stop.wait()
    server.stop()
    return 0


def log_request(entry: Any) -> None:
    """Print a request with its answer, in one line."""
    query = f"?{entry.query}" if entry.query else ""
    fault = f" ({entry.fault})" if entry.fault else ""
    # The client gets its answer also when nobody reads these lines any more.
    with contextlib.suppress(OSError):
        print(f"{entry.method} {entry.path}{query} {entry.status}{fault}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
