# SPDX-License-Identifier: Apache-2.0

"""What a real Ironic's history adds to an error."""

from collections.abc import Callable

import pytest

from ironic_virt import exceptions, virt
from tests.integration.services import Service, node_of

ORIGIN = "Ironic's history of the node: ERROR, {kind}, by conductor-1, at 20"
GONE = "the disk is gone"

Act = Callable[[Service, virt.Instance], None]


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
def test_an_error_ends_with_what_the_history_has_of_the_step(stage, before, act, operation, kind):
    instance = stage.instance()
    node = node_of(instance)
    for one in before:
        one(stage.service, instance)
    stage.operator.patch(node, driver_info={"fails": {operation: GONE}})
    with pytest.raises(exceptions.NodeError, match=GONE) as caught:
        act(stage.service, instance)
    assert caught.value.__notes__[0].startswith(ORIGIN.format(kind=kind))
    # After a failed deployment it is being cleaned.
    stage.operator.wait(node, lambda now: now["provision_state"] != "cleaning")
    stage.operator.patch(node, driver_info={})
    stage.service.destroy(instance)
    stage.operator.wait(node, lambda now: now["instance_uuid"] is None)
