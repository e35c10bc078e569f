# SPDX-License-Identifier: Apache-2.0

"""Two ``nova-compute`` of one host name that change places on purpose, while servers are built."""

import signal
from pathlib import Path

import pytest

from ironic_virt.exit_codes import ExitCode, FleetExitCode
from ironic_virt.testing.fault_proxy import Hang
from tests.nova_deployment.deployment import Deployment
from tests.nova_deployment.former import VERSION, NoFormer, build_former
from tests.nova_deployment.places import ACTIVE, WAITING, Begin, boot_slowly, finish

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.usefixtures("free_host"),
    pytest.mark.timeout(2400),
]

# The second one: Nova's time for it was over.
IN_ORDER = (0, 1, 128 + signal.SIGTERM)


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build_former(tmp_path_factory.mktemp("former"))
    except NoFormer as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("upgrades", [True, False], ids=["upgrade", "way back"])
def test_the_former_package_and_this_one_relieve_each_other(
    deployment: Deployment, begin: Begin, former: Path, upgrades: bool
) -> None:
    before, after = (former, None) if upgrades else (None, former)
    first = begin("before", ACTIVE, package=before)
    second = begin("after", WAITING, package=after)
    assert second.has_said(f"version {VERSION}, since") == upgrades, "it says who holds the lease"
    boot_slowly(deployment, [first, second])
    first.program.signal(signal.SIGTERM)
    second.wait_for(ACTIVE)
    sent = first.changes()
    assert first.wait_for_exit() in IN_ORDER
    assert first.changes() == sent
    finish(deployment, [first, second])


def test_a_deployment_may_start_the_next_one_before_it_ends(
    deployment: Deployment, begin: Begin
) -> None:
    serving = begin("revision", ACTIVE)
    places = [serving]
    for _ in range(2):
        # One that is taken back while it waits disturbs nobody.
        broken = begin("broken", WAITING)
        broken.program.signal(signal.SIGTERM)
        assert broken.wait_for_exit() == 0
        assert broken.changes() == 0
        places.append(following := begin("revision", WAITING))
        boot_slowly(deployment, places)
        assert serving.program.running
        with deployment.steps.step("from a SIGTERM to the next active process"):
            serving.program.signal(signal.SIGTERM)
            following.wait_for(ACTIVE)
        sent = serving.changes()
        assert serving.has_said("Gave the lease of compute-a back")
        assert serving.wait_for_exit() in IN_ORDER
        assert serving.changes() == sent
        serving = following
    finish(deployment, places)
    serving.program.signal(signal.SIGTERM)
    serving.wait_for_exit()
    code, words = serving.lease()
    assert (code, "lease-of-nobody" in words) == (FleetExitCode.FOUND, True), words


def test_a_primary_cut_off_from_ironic_makes_room_for_another(
    deployment: Deployment, begin: Begin, tmp_path: Path
) -> None:
    # It would have to be active for ten minutes.
    (tmp_path / "sitecustomize.py").write_text(
        "from ironic_virt.standby import lease\nlease.ACTIVE_SECONDS = 1.0\n"
    )
    how = {"package": tmp_path, "standby_hand_over_after": 30}
    first = begin("cut-off", ACTIVE, **how)
    second = begin("connected", WAITING, **how)
    boot_slowly(deployment, [first, second])
    first.ironic.add(Hang())
    with deployment.steps.step("from a cut from Ironic to the next active process"):
        second.wait_for(ACTIVE)
    assert first.wait_for_exit() == ExitCode.LEASE_LOST
    assert first.has_said("[lease-handed-over] This process has not reached Ironic")
    first.ironic.rules.clear()
    first.start()
    first.wait_for(WAITING)
    finish(deployment, [first, second])
