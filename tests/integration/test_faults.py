# SPDX-License-Identifier: Apache-2.0

"""The driver on a real Ironic, with a fault proxy between them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver import volumes
from ironic_virt.testing import fault_proxy
from ironic_virt.testing.fault_proxy import FaultProxy
from tests.integration.stage import Stage
from tools import real_ironic

THEIRS = {"kernel_append_params": "console=ttyS1", "capabilities": '{"secure_boot": "true"}'}
TARGET = {
    "volume_type": "iscsi",
    "volume_id": "left",
    "boot_index": 0,
    "properties": {"auth_password": "chap-secret-0815"},
}


@pytest.fixture
def stage(tmp_path: Path, ironic: real_ironic.RealIronic, proxy: FaultProxy) -> Iterator[Stage]:
    """A compute service that tries nothing for long; the operator is past the proxy."""
    stage = Stage(ironic, tmp_path, endpoint_override=proxy.url, api_max_retries=2)
    yield stage
    stage.close()


@pytest.fixture
def node(stage: Stage) -> str:
    """A free node that can have volumes."""
    return stage.node(fields={"storage_interface": "external"})


@pytest.fixture
def placed(stage: Stage, node: str) -> virt.Instance:
    """An instance that is active."""
    instance = stage.service.instance_on(node)
    stage.service.spawn(instance)
    return instance


def test_an_operators_notes_outlive_a_refused_deployment(stage, proxy, node) -> None:
    stage.operator.patch(node, instance_info=THEIRS)
    refused = proxy.add(fault_proxy.Status(400), "PUT", "/states/provision$", times=1)
    lost = proxy.add(fault_proxy.ResetAfter(), "PATCH", f"/nodes/{node}$", times=1)
    with pytest.raises(exceptions.DeployFailed):
        stage.service.spawn(stage.service.instance_on(node))
    assert (refused.hits, lost.hits) == (1, 1)
    there = stage.operator.node(node)
    assert (there["instance_uuid"], there["instance_info"]) == (None, THEIRS)


def test_a_tear_down_does_not_fail_for_left_volume_targets(stage, proxy, node, placed) -> None:
    body = {**TARGET, "node_uuid": node, "extra": {volumes.MARK: placed.uuid}}
    stage.operator.request("POST", "/volume/targets", body)
    away = proxy.add(fault_proxy.Status(503), path="/volume/targets")
    stage.service.destroy(placed)
    assert away.hits
    assert stage.operator.wait_for_state(node, "available")["instance_uuid"] is None
    proxy.rules.clear()
    now = stage.service.driver._left_volumes
    now._period = 0
    stage.service.driver.get_available_nodes(refresh=True)
    stage.operator.wait(node, lambda seen: seen["power_state"] == "power off")
    stage.service.driver.get_available_nodes(refresh=True)
    assert stage.operator.request("GET", f"/volume/targets?node={node}")["targets"] == []
