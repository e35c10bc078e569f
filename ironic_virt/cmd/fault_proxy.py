# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fault-proxy``: a proxy with faults before an Ironic, until it is told to stop.

Exits 0 on SIGTERM or SIGINT, 2 on bad arguments, also if it can't listen there.
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
A rule is a fault and, behind it, the requests that it strikes:
  delay=SECONDS       passes the request on later
  hang                never passes it on
  drip=SECONDS        sends the answer byte by byte, so far apart
  reset-before        resets the connection; Ironic does not see the request
  reset-after         lets Ironic carry it out, then resets the connection
  truncate[=BYTES]    sends only so much of the body (default: half)
  redirect=URL        redirects to it, with path and query added
  status=CODE         answers with it; also retry-after=SECONDS, text=MESSAGE
  max-version=1.N     behaves as an API server that knows no later version
  omit=FIELD          leaves a field out of each resource
  malform=FIELD       sets it to what nobody expects; also value=JSON
  body=TEXT           sends this instead of the answer's body

  method=REGEX path=REGEX   only requests with these; path includes the query
  after=N every=N times=N   spares the first, strikes each N-th, so often at most
  rate=0.3 seed=N           strikes that part of them, the same with the same seed

examples:
  ironic-virt-fault-proxy --target http://127.0.0.1:6385 --rule "delay=5 rate=0.1"
      about every tenth request takes 5 s longer
  ironic-virt-fault-proxy --target http://127.0.0.1:6385 \\
      --rule "reset-after method=PATCH every=3" --rule "status=503 retry-after=5 times=10"
      each third change is lost on its way back; the first ten of the others are answered 503
"""

#: What may stand behind a fault.
_CONDITIONS: dict[str, Callable[[str], Any]] = {
    "method": str,
    "path": str,
    "after": int,
    "every": int,
    "times": int,
    "rate": float,
    "seed": int,
}


def _fault(kind: str, value: str, options: dict[str, str]) -> "Fault":
    """A fault; takes from ``options`` what is its own.

    :raises ValueError: if there is none of this kind, or the value is not for it.
    """
    from ironic_virt.testing import fault_proxy

    plain: dict[str, Callable[[], Fault]] = {
        "hang": fault_proxy.Hang,
        "reset-before": fault_proxy.ResetBefore,
        "reset-after": fault_proxy.ResetAfter,
        "truncate": fault_proxy.Truncate,
    }
    if not value and kind in plain:
        return plain[kind]()
    valued: dict[str, Callable[[str], Fault]] = {
        "delay": lambda text: fault_proxy.Delay(float(text)),
        "drip": lambda text: fault_proxy.Drip(float(text)),
        "truncate": lambda text: fault_proxy.Truncate(int(text)),
        "redirect": fault_proxy.Redirect,
        "max-version": fault_proxy.MaxVersion,
        "omit": fault_proxy.Omit,
        "body": lambda text: fault_proxy.Body(text.encode()),
    }
    if kind == "status":
        retry = options.pop("retry-after", None)
        headers = {} if retry is None else {"Retry-After": retry}
        return fault_proxy.Status(int(value), options.pop("text", None), headers)
    if kind == "malform" and value:
        if "value" in options:
            return fault_proxy.Malform(value, json.loads(options.pop("value")))
        return fault_proxy.Malform(value)
    if kind not in valued or not value:
        raise ValueError("there is no such fault, or its value is missing or too much")
    return valued[kind](value)


def parse_rule(text: str) -> "Rule":
    """A rule as the command line has it, such as ``status=503 method=GET times=2``.

    :raises argparse.ArgumentTypeError: if it can't be read.
    """
    from ironic_virt.testing.fault_proxy import Rule

    try:
        words = shlex.shlex(text, posix=True)
        words.whitespace_split = True
        # Those of regular expressions stay.
        words.escape = words.commenters = ""
        first, *rest = list(words) or [""]
        kind, _, value = first.partition("=")
        options = dict(part.split("=", 1) for part in rest)
        fault = _fault(kind, value, options)
        unknown = options.keys() - _CONDITIONS.keys()
        if unknown:
            raise ValueError(f"{kind} does not take {', '.join(sorted(unknown))}")
        return Rule(fault, **{name: _CONDITIONS[name](text) for name, text in options.items()})
    except (ValueError, re.error) as exc:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rule: {exc}") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ironic-virt-fault-proxy",
        description="Stand before an Ironic, pass requests on, and let some of them go wrong.",
        epilog=f"{_EPILOG}\n{exit_codes.epilog()}",
        formatter_class=arguments.Help,
    )
    parser.add_argument(
        "--target", required=True, metavar="URL", help="the Ironic, without the version"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default: 0)")
    parser.add_argument(
        "--rule",
        type=parse_rule,
        action="append",
        default=[],
        metavar="RULE",
        help="a fault and its requests, see below; may be given several times",
    )
    parser.add_argument("--quiet", action="store_true", help="no line for each request")
    parser.add_argument("--json", action="store_true", help="tell the address as a line of JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    :param argv: its arguments; those of the process by default.
    :returns: the exit status.
    """
    return run("ironic-virt-fault-proxy", argv, _run)


def _run(argv: Sequence[str] | None) -> int:
    from ironic_virt.testing.fault_proxy import FaultProxy

    parser = _parser()
    args = parser.parse_args(argv)
    try:
        proxy = FaultProxy(args.target, host=args.host, port=args.port, remember=10_000)
    except ValueError as exc:
        parser.error(f"argument --target: {exc}")
    for rule in args.rule:
        proxy.rules.add(rule)
    if not args.quiet:
        proxy.requests.listener = log_request
    return serve(parser.prog, proxy, args, f"Fault proxy before {args.target}", {})


if __name__ == "__main__":
    sys.exit(main())
