# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-status upgrade check`` on the host of a nova-compute."""

import pytest

from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer, RealClock
from tests import upgrade_checks


@pytest.mark.parametrize(("options", "code", "check", "words"), upgrade_checks.CASES)
def test_what_the_host_is_told(tmp_path, capsys, options, code, check, words) -> None:
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
        ("ironic", "", "max_concurrent_builds is 10: the rest of a larger batch waits in Nova"),
        ("ironic", "max_concurrent_builds = 0", "is 0: it no longer means no limit"),
        ("ironic", "max_concurrent_builds = 50", ""),
        ("scheduler", "", ""),
    ],
)
def test_a_service_with_pools_hears_that_it_builds_few_at_a_time(
    tmp_path, capsys, selection, line, said
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
