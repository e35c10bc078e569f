# SPDX-License-Identifier: Apache-2.0

"""The driver on a real Ironic, with a fault proxy between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import real_ironic
from ironic_virt import exceptions, virt
from ironic_virt.testing import fault_proxy
from ironic_virt.testing.fault_proxy import FaultProxy
from tests.integration.services import SEEDS, Operator, Service, write_conf

THEIRS = {"kernel_append_params": "console=ttyS1", "capabilities": '{"secure_boot": "true"}'}
TARGET = {
    "volume_type": "iscsi",
    "volume_id": "left",
    "boot_index": 0,
    "properties": {"auth_password": "chap-secret-0815"},
}


@pytest.fixture
def operator(ironic: real_ironic.RealIronic) -> Operator:
    """Somebody else, past the proxy."""
    return Operator(ironic)


@pytest.fixture
def proxy(ironic: real_ironic.RealIronic) -> Iterator[FaultProxy]:
    """What the service takes for Ironic."""
    with FaultProxy(ironic.url) as between:
        yield between


@pytest.fixture
def service(
    tmp_path: Path, ironic: real_ironic.RealIronic, proxy: FaultProxy
) -> Iterator[Service]:
    """A compute service that tries nothing for long."""
    options = {"endpoint_override": proxy.url, "api_max_retries": 2, "api_retry_interval": 1}
    running = Service(write_conf(tmp_path, ironic, **options))
    yield running
    running.driver.cleanup_host()


@pytest.fixture
def node(ironic: real_ironic.RealIronic) -> str:
    """A free node that can have volumes."""
    seed = next(SEEDS)
    template = real_ironic.NodeTemplate(fields={"storage_interface": "external"})
    [made] = real_ironic.create_nodes(ironic, 1, template, name=f"faults-{seed}", seed=seed)
    return made


@pytest.fixture
def placed(service: Service, node: str) -> virt.Instance:
    """An instance that is active."""
    instance = service.instance_on(node)
    service.spawn(instance)
    return instance


def test_what_an_operator_has_noted_outlives_a_refused_deployment(
    service: Service, operator: Operator, proxy: FaultProxy, node: str
) -> None:
    operator.patch(node, instance_info=THEIRS)
    refused = proxy.add(fault_proxy.Status(400), "PUT", "/states/provision$", times=1)
    lost = proxy.add(fault_proxy.ResetAfter(), "PATCH", f"/nodes/{node}$", times=1)
    with pytest.raises(exceptions.DeployFailed):
        service.spawn(service.instance_on(node))
    assert (refused.hits, lost.hits) == (1, 1)
    there = operator.node(node)
    assert (there["instance_uuid"], there["instance_info"]) == (None, THEIRS)


def test_what_an_operator_has_noted_is_deployed_with(
    service: Service, operator: Operator, node: str
) -> None:
    operator.patch(node, instance_info=THEIRS)
    instance = service.instance_on(node)
    service.spawn(instance)
    told = operator.node(node)["instance_info"]
    assert {key: told[key] for key in THEIRS} == THEIRS
    service.rebuild(instance)
    told = operator.node(node)["instance_info"]
    assert {key: told[key] for key in THEIRS} == THEIRS
    service.destroy(instance)
    # Ironic itself keeps nothing.
    assert operator.wait_for_state(node, "available")["instance_info"] == {}


def test_a_server_error_is_undone(
    service: Service, operator: Operator, proxy: FaultProxy, node: str
) -> None:
    before = operator.node(node)
    fault = proxy.add(fault_proxy.Status(500), "PUT", "/states/provision$", times=1)
    with pytest.raises(exceptions.IronicError) as caught:
        service.spawn(service.instance_on(node))
    assert (caught.value.status, fault.hits) == (500, 1)
    assert operator.node(node) == before


def test_a_lock_that_outlasts_the_retries_is_waited_for(
    service: Service, operator: Operator, proxy: FaultProxy, node: str, placed: virt.Instance
) -> None:
    text = f"Node {node} is locked by host other, please retry after the current operation."
    fault = proxy.add(fault_proxy.Status(409, text), "PUT", "/states/provision$", times=5)
    service.destroy(placed)
    assert fault.hits == 5
    assert operator.wait_for_state(node, "available")["instance_uuid"] is None


@pytest.mark.parametrize("field", ["instance_uuid", "provision_state"])
def test_looks_that_lack_something_end_nothing(
    service: Service, operator: Operator, proxy: FaultProxy, node: str, field: str
) -> None:
    shown = proxy.add(fault_proxy.Omit(field), "GET", f"/v1/nodes/{node}", every=2)
    instance = service.instance_on(node)
    service.spawn(instance)
    assert operator.node(node)["provision_state"] == "active"
    service.destroy(instance)
    assert shown.hits
    assert operator.wait_for_state(node, "available")["instance_uuid"] is None
    deletes = [one for one in proxy.requests.matching("PUT", "/provision$") if _deletes(one.body)]
    assert len(deletes) == 1


def _deletes(body: Any) -> bool:
    return bool(body["target"] == "deleted")


def test_a_tear_down_does_not_fail_for_volume_targets_that_are_left(
    service: Service, operator: Operator, proxy: FaultProxy, node: str, placed: virt.Instance
) -> None:
    body = {**TARGET, "node_uuid": node, "extra": {"instance_uuid": placed.uuid}}
    operator.request("POST", "/volume/targets", body)
    away = proxy.add(fault_proxy.Status(503), path="/volume/targets")
    service.destroy(placed)
    assert away.hits
    assert operator.wait_for_state(node, "available")["instance_uuid"] is None
    proxy.rules.clear()
    now = service.driver._left_volumes
    now._period = 0
    service.driver.get_available_nodes(refresh=True)
    operator.wait(node, lambda seen: seen["power_state"] == "power off")
    service.driver.get_available_nodes(refresh=True)
    assert operator.request("GET", f"/volume/targets?node={node}")["targets"] == []
