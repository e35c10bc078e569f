# SPDX-License-Identifier: Apache-2.0

"""What the driver does not conclude, but looks up: on a real Ironic behind a fault proxy."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.testing import fault_proxy
from ironic_virt.testing.fake_ironic.errors import ApiError
from ironic_virt.testing.fault_proxy import FaultProxy
from ironic_virt.testing.fault_proxy.exchange import Reply, Request, json_reply
from ironic_virt.testing.fault_proxy.faults import Fault, PassOn
from tests.integration.stage import Stage
from tools import real_ironic


@dataclasses.dataclass(frozen=True)
class SlowConductor(Fault):
    """Let Ironic carry a request out, and answer as an API whose conductor takes too long."""

    kind = "slow-conductor"

    def act(self, request: Request, pass_on: PassOn) -> Reply:
        reply = pass_on(request)
        if reply.status >= 400:
            return reply
        text = "Timed out waiting for a reply to message ID 5c1a8c1e"
        return json_reply(500, ApiError(500, text).body(), {})


@pytest.fixture
def stage(tmp_path: Path, ironic: real_ironic.RealIronic, proxy: FaultProxy) -> Iterator[Stage]:
    """A compute service; the operator is past the proxy."""
    limits = ("deploy_timeout", "unprovision_timeout", "rescue_timeout", "power_timeout")
    stage = Stage(ironic, tmp_path, endpoint_override=proxy.url, **dict.fromkeys(limits, 60))
    yield stage
    stage.close()


@pytest.fixture
def node(stage: Stage) -> str:
    """A free node that can have volumes."""
    return stage.node(fields={"storage_interface": "external"})


def changes(proxy: FaultProxy, target: str) -> int:
    """How often Ironic has carried out a change of a state, with either answer."""
    return sum(
        entry.body["target"] == target and entry.status in (202, 500)
        for entry in proxy.requests.matching("PUT", "/states/")
    )


def test_changes_that_were_made_and_answered_500_are_made_once(stage, proxy, node) -> None:
    slow = proxy.add(SlowConductor(), "PUT|POST|PATCH|DELETE")
    instance, driver = stage.service.instance_on(node), stage.service.driver
    stage.service.spawn(instance)
    driver.power_off(instance)
    driver.power_on(instance)
    driver.reboot(instance, "HARD")
    driver.reboot(instance, "SOFT")
    # It is over before the look, which shows what a rescue and back would leave, too.
    with pytest.raises(exceptions.RebuildFailed, match="not known whether that was by this"):
        stage.service.rebuild(instance)
    driver.rescue(instance, "correct horse battery")
    driver.unrescue(instance)
    there = stage.operator.node(node)
    assert (there["provision_state"], there["instance_uuid"]) == ("active", instance.uuid)
    stage.service.destroy(instance)
    assert stage.operator.wait_for_state(node, "available")["instance_uuid"] is None
    once = ("active", "rebuild", "rescue", "unrescue", "deleted", "rebooting", "soft rebooting")
    assert {target: changes(proxy, target) for target in once} == dict.fromkeys(once, 1)
    assert slow.hits > 10


@pytest.mark.parametrize("target", ["active", "rebuild", "rescue", "deleted", "power off"])
def test_an_action_that_ended_unseen_is_done_past_its_deadline(stage, proxy, node, target) -> None:
    limits = ("deploy_timeout", "unprovision_timeout", "rescue_timeout", "power_timeout")
    hasty = stage.another_service(endpoint_override=proxy.url, **dict.fromkeys(limits, 3))
    instance = stage.service.instance_on(node)
    if target != "active":
        stage.service.spawn(instance)

    def is_asked(_: Any) -> bool:
        return changes(proxy, target) > 0

    # More looks than fit before the deadline.
    away = proxy.add(fault_proxy.Status(503), "GET", when=is_asked, times=6)
    acts = {
        "active": lambda: hasty.spawn(instance),
        "rebuild": lambda: hasty.rebuild(instance),
        "rescue": lambda: hasty.driver.rescue(instance, "correct horse battery"),
        "deleted": lambda: hasty.destroy(instance),
        "power off": lambda: hasty.driver.power_off(instance),
    }
    acts[target]()
    assert away.hits == 6
    assert changes(proxy, target) == 1
    there = stage.operator.node(node)
    assert (there["instance_uuid"] is None) is (target == "deleted")
