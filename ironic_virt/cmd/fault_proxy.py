# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fault-proxy``: a proxy in front of an Ironic that injects failures.

Exits 0 on SIGTERM or SIGINT, 2 on bad arguments or if it can't listen.
"""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt import exit_codes
from ironic_virt.cmd import arguments
from ironic_virt.cmd.fake_ironic import log_request, run, serve

if TYPE_CHECKING:
    from ironic_virt.testing.fault_proxy import Fault, Rule

_EPILOG = """\
A rule is a fault, followed by conditions for the requests that it strikes:
  delay=SECONDS       delays the request
  hang                never passes it on
  drip=SECONDS        sends the answer byte by byte, with this pause
  reset-before        resets the connection; Ironic does not see the request
  reset-after         resets the connection after Ironic has carried it out
  truncate[=BYTES]    sends only this much of the body (default: half)
  redirect=URL        redirects to it, with path and query added
  status=CODE         answers with it; also retry-after=SECONDS, text=MESSAGE
  max-version=1.N     behaves like an API server that knows no later version
  omit=FIELD          leaves a field out of each resource
  malform=FIELD       sets it to an unexpected value; also value=JSON
  body=TEXT           sends this instead of the answer's body

  method=REGEX path=REGEX   only requests with these; path includes the query
  after=N every=N times=N   skips the first N; strikes every N-th; at most N times
  rate=0.3 seed=N           strikes this share at random, repeatable by the seed

examples:
  ironic-virt-fault-proxy --target http://127.0.0.1:6385 --rule "delay=5 rate=0.1"
      about every tenth request takes 5 s longer
  ironic-virt-fault-proxy --target http://127.0.0.1:6385 \\
      --rule "reset-after method=PATCH every=3" --rule "status=503 retry-after=5 times=10"
      each third change is lost on its way back; the first ten of the others are answered 503
"""

_PLAIN = ("hang", "reset-before", "reset-after", "truncate")
"""Faults that need no value."""
_VALUES: dict[str, Callable[[str], Any]] = {
    "delay": float,
    "drip": float,
    "truncate": int,
    "redirect": str,
    "max-version": str,
    "omit": str,
    "body": str.encode,
}
"""What a fault makes of its value."""
#: The conditions of a rule.
_CONDITIONS: dict[str, Callable[[str], Any]] = {
    "method": str,
    "path": str,
    "after": int,
    "every": int,
    "times": int,
    "rate": float,
    "seed": int,
}


def _make_fault(kind: str, value: str, options: dict[str, str]) -> "Fault":
    """Make a fault; remove its own options from ``options``.

    :raises ValueError: there is no such kind, or the value is wrong.
    """
    from ironic_virt.testing import fault_proxy

    if kind == "status":
        retry = options.pop("retry-after", None)
        headers = {} if retry is None else {"Retry-After": retry}
        return fault_proxy.Status(int(value), options.pop("text", None), headers)
    if kind == "malform" and value:
        if "value" in options:
            return fault_proxy.Malform(value, json.loads(options.pop("value")))
        return fault_proxy.Malform(value)
    if kind not in (_VALUES if value else _PLAIN):
        raise ValueError("no such fault, or it lacks a value or has one too many")
    make: Callable[..., Fault] = getattr(fault_proxy, kind.title().replace("-", ""))
    return make(_VALUES[kind](value)) if value else make()


def parse_rule(text: str) -> "Rule":
    """Parse a rule such as ``status=503 method=GET times=2``.

    :raises argparse.ArgumentTypeError: it can't be parsed.
    """
    from ironic_virt.testing.fault_proxy import Rule

    try:
        words = shlex.shlex(text, posix=True)
        words.whitespace_split = True
        # Regular expressions keep theirs.
        words.escape = words.commenters = ""
        first, *rest = list(words) or [""]
        kind, _, value = first.partition("=")
        options = dict(part.split("=", 1) for part in rest)
        fault = _make_fault(kind, value, options)
        unknown = options.keys() - _CONDITIONS.keys()
        if unknown:
            raise ValueError(f"{kind} does not take {', '.join(sorted(unknown))}")
        return Rule(fault, **{name: _CONDITIONS[name](text) for name, text in options.items()})
    except (ValueError, re.error) as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rule: {exc}") from None


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ironic-virt-fault-proxy",
        description="Pass requests on to an Ironic, and inject failures.",
        epilog=f"{_EPILOG}\n{exit_codes.epilog()}",
        formatter_class=arguments.Help,
    )
    parser.add_argument(
        "--target", required=True, metavar="URL", help="the Ironic, without the version"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one (default: 0)")
    parser.add_argument(
        "--rule",
        type=parse_rule,
        action="append",
        default=[],
        metavar="RULE",
        help="a fault and its conditions, see below; may be repeated",
    )
    parser.add_argument("--quiet", action="store_true", help="don't log requests")
    parser.add_argument("--json", action="store_true", help="print the address as a line of JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    :param argv: its arguments; those of the process by default.
    :returns: the exit status.
    """
    return run("ironic-virt-fault-proxy", argv, _serve_proxy)


def _serve_proxy(argv: Sequence[str] | None) -> int:
    from ironic_virt.testing.fault_proxy import FaultProxy

    parser = _make_parser()
    args = parser.parse_args(argv)
    try:
        proxy = FaultProxy(args.target, host=args.host, port=args.port, remember=10_000)
    except ValueError as exc:
        parser.error(f"argument --target: {exc}")
    for rule in args.rule:
        proxy.rules.add(rule)
    if not args.quiet:
        proxy.requests.listener = log_request
    return serve(parser.prog, proxy, args, f"Fault proxy in front of {args.target}", {})


if __name__ == "__main__":
    sys.exit(main())
