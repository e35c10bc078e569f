# SPDX-License-Identifier: Apache-2.0

"""What has happened to a node."""

from tests.conformance.registry import check
from tests.conformance.subject import IMAGE, IronicUnderTest


@check
def _(ironic: IronicUnderTest) -> None:
    """a node to which nothing has happened has no history"""
    node = ironic.node()
    assert ironic.get(f"/v1/nodes/{node}/history").body == {"history": []}
    ironic.get(f"/v1/nodes/{node}/history", version="1.77", expect=404)
    ironic.get(f"/v1/nodes/{node}/history/{ironic.uuid()}", expect=404)


@check
def _(ironic: IronicUnderTest) -> None:
    """a failed cleaning is in the history of the node"""
    node = ironic.node(instance_info=IMAGE)
    ironic.set_node(node, provision_state="manageable")
    step = {"interface": "deploy", "step": "nothing", "args": {}}
    ironic.provision(node, "clean", clean_steps=[step])
    body = ironic.get(f"/v1/nodes/{node}/history").body
    ironic.get(f"/v1/nodes/{node}/history?detail=true")
    ironic.get(f"/v1/nodes/{node}/history/{body['history'][0]['uuid']}")
    ironic.get(f"/v1/nodes/{node}/history?limit=1")
