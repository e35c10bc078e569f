# SPDX-License-Identifier: Apache-2.0

"""What a real Ironic's history adds to an error; what it knows of an instance that runs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import real_ironic
from ironic_virt import exceptions, virt
from tests.integration.services import SEEDS, Operator, Service

ORIGIN = "Ironic's history of the node: ERROR, {kind}, by conductor-1, at 20"
GONE = "the disk is gone"

Act = Callable[[Service, virt.Instance], None]


@pytest.fixture
def instance(ironic_on_mariadb: real_ironic.RealIronic, service: Service) -> virt.Instance:
    """One that is not there yet, on a node of its own."""
    seed = next(SEEDS)
    [node] = real_ironic.create_nodes(ironic_on_mariadb, 1, name=f"history-{seed}-{{}}", seed=seed)
    return service.instance_on(node)


def spawn(service: Service, instance: virt.Instance) -> None:
    service.spawn(instance, [])


def rebuild(service: Service, instance: virt.Instance) -> None:
    service.rebuild(instance)


def rescue(service: Service, instance: virt.Instance) -> None:
    service.driver.rescue(instance, "correct horse")


def unrescue(service: Service, instance: virt.Instance) -> None:
    service.driver.unrescue(instance)


def destroy(service: Service, instance: virt.Instance) -> None:
    service.destroy(instance)


@pytest.mark.parametrize(
    ("before", "act", "operation", "kind"),
    [
        pytest.param((), spawn, "deploy", "deploying", id="spawn"),
        pytest.param((spawn,), rebuild, "deploy", "deploying", id="rebuild"),
        pytest.param((spawn,), rescue, "rescue", "rescue", id="rescue"),
        pytest.param((spawn, rescue), unrescue, "unrescue", "rescue", id="unrescue"),
        pytest.param((spawn,), destroy, "undeploy", "unprovision", id="destroy"),
    ],
)
def test_an_error_ends_with_what_the_history_has_of_the_step(
    service: Service,
    operator: Operator,
    instance: virt.Instance,
    before: tuple[Act, ...],
    act: Act,
    operation: str,
    kind: str,
) -> None:
    assert instance.node is not None
    for one in before:
        one(service, instance)
    operator.patch(instance.node, driver_info={"fails": {operation: GONE}})
    with pytest.raises(exceptions.NodeError, match=GONE) as caught:
        act(service, instance)
    assert caught.value.__notes__[0].startswith(ORIGIN.format(kind=kind))
    # After a failed deployment it is being cleaned.
    operator.wait(instance.node, lambda now: now["provision_state"] != "cleaning")
    operator.patch(instance.node, driver_info={})
    service.destroy(instance)
    operator.wait(instance.node, lambda now: now["instance_uuid"] is None)


def test_what_is_known_of_an_instance_that_runs(
    service: Service, operator: Operator, instance: virt.Instance
) -> None:
    service.spawn(instance, [])
    began = time.monotonic()
    service.driver.power_on(instance)
    told = service.driver.get_instance_diagnostics(instance)
    [port] = operator.request("GET", f"/ports?node={instance.node}")["ports"]
    assert told.macs == (port["address"],)
    assert (told.state, told.cpus, told.memory_mb) == (virt.PowerState.RUNNING, 8, 16384)
    assert told.config_drive
    assert told.uptime is not None
    # Ironic's times are whole seconds.
    assert 0 <= told.uptime <= time.monotonic() - began + 1
    service.destroy(instance)
