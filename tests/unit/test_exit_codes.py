# SPDX-License-Identifier: Apache-2.0

"""Exit codes are one list, which the help and the documentation show."""

import pathlib
from typing import Any

import pytest

from ironic_virt.cmd import compute, fake_ironic, fleet, manage, shell
from ironic_virt.exit_codes import ExitCode, FleetExitCode
from tests import root_logger

PAGE = pathlib.Path(__file__).parents[2] / "doc" / "source" / "user" / "commands.rst"


def test_the_documentation_has_all() -> None:
    rows = "".join(f"   {code:<5d}  {code.meaning}\n" for code in ExitCode)
    assert PAGE.read_text().count(rows) == 1


def ended(module: Any, *argv: str) -> int:
    """How a command ends."""
    with root_logger.kept(), pytest.raises(SystemExit) as end:
        raise SystemExit(module.main(list(argv)))
    return end.value.code or 0


@pytest.mark.parametrize(
    ("module", "own"),
    [
        (compute, {ExitCode.SUPERSEDED, ExitCode.LEASE_LOST, ExitCode.TERMINATED}),
        *((module, set()) for module in (fake_ironic, manage, shell)),
    ],
)
def test_the_help_has_those_that_a_command_has(module, own: set[ExitCode], capsys) -> None:
    assert ended(module, "--help") == 0
    said = " ".join(capsys.readouterr().out.split())
    told = {code for code in ExitCode if f"{code:d} {code.meaning}" in said}
    common = {ExitCode.DONE, ExitCode.FAILED, ExitCode.REFUSED, ExitCode.INTERRUPTED}
    assert told - {ExitCode.PIPE_CLOSED} == common | own


def test_the_help_of_the_fleet_tools_has_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(fleet, "--help") == 0
    said = " ".join(capsys.readouterr().out.split())
    listed = "; ".join(f"{code:d} {code.meaning}" for code in FleetExitCode)
    assert f"Exit codes: {listed}." in said
