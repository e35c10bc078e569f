# SPDX-License-Identifier: Apache-2.0

"""Nodes on their way from one provision state to another."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.conformance.checks.nodes_patch import add
from tests.conformance.registry import slow_check
from tests.conformance.subject import ANY, IMAGE, IronicUnderTest


@contextlib.contextmanager
def under_way(ironic: IronicUnderTest, node: str, **asked: str) -> Iterator[dict[str, Any]]:
    """A node as it is shown while its hardware does what it is asked; it is settled afterwards."""
    with ironic.held_hardware():
        ironic.put(f"/v1/nodes/{node}/states/provision", asked)
        ironic.wait_for_hardware()
        yield ironic.get(f"/v1/nodes/{node}").body
    ironic.settle(node)
    ironic.get(f"/v1/nodes/{node}")


@slow_check
def _(ironic: IronicUnderTest) -> None:
    """a node that is being deployed is locked, and can't be changed"""
    node = ironic.node(instance_info=IMAGE, instance_uuid=ironic.uuid())
    path = f"/v1/nodes/{node}"
    with under_way(ironic, node, target="active") as body:
        assert body["provision_state"] == "deploying"
        assert body["target_provision_state"] == "active"
        assert body["reservation"] == "conductor-1"
        ironic.get(f"{path}/states")
        ironic.patch(path, add("/extra/a", 1), expect=409)
        ironic.put(f"{path}/states/provision", {"target": "deleted"}, expect=ANY)
        ironic.put(f"{path}/states/power", {"target": "power on"}, expect=409)
        ironic.put(f"{path}/maintenance", expect=ANY)
        ironic.delete(path, expect=409)


@slow_check
def _(ironic: IronicUnderTest) -> None:
    """a node that is being torn down shows it"""
    node = ironic.active_node(instance_uuid=ironic.uuid())
    with under_way(ironic, node, target="deleted") as body:
        assert body["provision_state"] == "deleting"
        assert body["instance_uuid"] is not None
        for target in ("active", "deleted"):
            ironic.put(f"/v1/nodes/{node}/states/provision", {"target": target}, expect=ANY)


@slow_check
def _(ironic: IronicUnderTest) -> None:
    """a node that is being rescued shows it"""
    with under_way(
        ironic, ironic.active_node(), target="rescue", rescue_password="secret"
    ) as body:
        assert body["provision_state"] == "rescuing"


@slow_check
def _(ironic: IronicUnderTest) -> None:
    """a node that is being inspected shows it"""
    node = ironic.node_with(provision_state="manageable")
    with under_way(ironic, node, target="inspect") as body:
        assert body["provision_state"] == "inspecting"
