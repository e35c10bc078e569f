# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-status upgrade check`` on the host of a nova-compute."""

from __future__ import annotations

from pathlib import Path

import pytest

from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer, RealClock
from tests import upgrade_checks


@pytest.mark.parametrize(("options", "code", "check", "words"), upgrade_checks.CASES)
def test_what_the_host_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, str],
    code: int,
    check: str,
    words: str,
) -> None:
    with FakeIronicServer(FakeIronic(clock=RealClock())) as ironic:
        found, results = upgrade_checks.checked(
            tmp_path / "nova-compute.conf",
            "ironic_virt.IronicDriver",
            capsys,
            **{"endpoint_override": ironic.url, **options},
        )
    assert found == code, results
    assert words in upgrade_checks.said(results, check)
    assert results["Release of Nova"] == ""


@pytest.mark.parametrize(
    ("selection", "line", "said"),
    [
        ("ironic", "", "max_concurrent_builds is 10: of a larger batch the rest waits in Nova"),
        ("ironic", "max_concurrent_builds = 0", "is 0: once no limit"),
        ("ironic", "max_concurrent_builds = 50", ""),
        ("scheduler", "", ""),
    ],
)
def test_a_service_with_pools_is_told_that_it_builds_few_servers_at_a_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], selection: str, line: str, said: str
) -> None:
    with FakeIronicServer(FakeIronic(clock=RealClock())) as ironic:
        code, results = upgrade_checks.checked(
            tmp_path / "nova-compute.conf",
            "ironic_virt.IronicDriver",
            capsys,
            line,
            endpoint_override=ironic.url,
            node_selection=selection,
        )
    assert code == bool(said)
    assert said in results["Builds at a time"]
    assert bool(results["Builds at a time"]) == bool(said)
