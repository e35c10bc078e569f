# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-status upgrade check`` on a host, and its output for each kind of host."""

import json
from pathlib import Path

import pytest

from ironic_virt.cmd import status
from tests import root_logger

NO_IRONIC = "http://127.0.0.1:9"

CASES = [
    ({}, 0, "Ironic", "Ironic's API is 1."),
    ({"foo": "1"}, 1, "Options", "foo"),
    ({"shardd": "a"}, 2, "Options", "did you mean shard?"),
    ({"peer_list": "one"}, 1, "Which nodes are the service's", "peer_list is deprecated"),
    ({"conductor_group": "g", "peer_list": "two"}, 2, "Which", "does not name this host"),
    ({"endpoint_override": NO_IRONIC}, 2, "Ironic", "no answer"),
]
"""Options, the exit code, a check and what it says."""


def checked(
    path: Path,
    driver: str,
    capsys: pytest.CaptureFixture[str],
    default: str = "",
    **options: str,
) -> tuple[int, dict[str, str]]:
    """The exit code, and the results by the checks' names.

    :param path: where the host's file is written.
    :param default: a further line of ``[DEFAULT]``.
    :param options: of ``[ironic]``.
    """
    lines = ["[DEFAULT]", "host = one", f"state_path = {path.parent}", default]
    lines += [f"compute_driver = {driver}", "[ironic]", "auth_type = none", "api_max_retries = 0"]
    lines += [f"{name} = {value}" for name, value in options.items()]
    path.write_text("\n".join([*lines, ""]))
    with root_logger.kept():
        code = status.main(["--config-file", str(path), "upgrade", "check", "--json"])
    found = json.loads(capsys.readouterr().out)["checks"]
    return code, {one["check"]: one["details"] or "" for one in found}


def said(results: dict[str, str], check: str) -> str:
    """What the check says whose name begins so."""
    (details,) = [text for name, text in results.items() if name.startswith(check)]
    return details
