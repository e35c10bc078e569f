# SPDX-License-Identifier: Apache-2.0

"""Requests that nobody should send: unknown paths, broken JSON, wrong methods."""

from tests.conformance.registry import check, check_each
from tests.conformance.subject import IronicUnderTest


@check_each(
    *(("/v2", 404), ("/v1/machines", 404), ("/nothing", 404), ("/v1/nodes/detail/more", 404)),
    *(("/v1/nodes/nothing", 404), ("/v1/nodes/00000000-0000-0000-0000-00000000dead", 404)),
    *(("/v1/nodes/a%20b", 400), ("/v1/nodes/%2F", 400), ("/v1/nodes/%C3%A4", 400)),
    # Taken for the name of a field.
    *(("/v1/nodes/a,b", 400), ("/v1/nodes/{node}/nothing", 400)),
)
def _(ironic: IronicUnderTest, path: str, status: int) -> None:
    """there is nothing at {}"""
    ironic.get(path.format(node=ironic.node()), expect=status)


@check_each("/v1/nodes", "/v1/ports", "/v1/allocations")
def _(ironic: IronicUnderTest, path: str) -> None:
    """a body for {} that is not JSON is refused, as a failure of the server"""
    ironic.request("POST", path, raw=b"{broken", expect=500)
    ironic.request("POST", path, raw=b"", expect=400)


@check_each(("[]", 400), ("null", 500), ('"text"', 400), ("1", 400), ("{}", 400))
def _(ironic: IronicUnderTest, body: str, status: int) -> None:
    """a node can't be made of {}"""
    ironic.request("POST", "/v1/nodes", raw=body.encode(), expect=status)


@check_each(
    *(("null", 500), ('"text"', 400), ("1", 400), ("{}", 400), ("{broken", 500), ("[1]", 400)),
    *(("[null]", 400), ("[[]]", 400), ("", 400)),
)
def _(ironic: IronicUnderTest, body: str, status: int) -> None:
    """a node is not patched with '{}'"""
    ironic.request("PATCH", f"/v1/nodes/{ironic.node()}", raw=body.encode(), expect=status)


@check
def _(ironic: IronicUnderTest) -> None:
    """a patch without operations changes nothing, but for the time of the change"""
    node = ironic.node(powered=False)
    assert ironic.patch(f"/v1/nodes/{node}").body["updated_at"] is not None


@check
def _(ironic: IronicUnderTest) -> None:
    """methods that a resource does not have are not allowed"""
    path = f"/v1/nodes/{ironic.node()}"
    ironic.put("/v1/nodes", {}, expect=405)
    ironic.put(path, {}, expect=405)
    ironic.delete("/v1/nodes", expect=400)
    ironic.delete(f"{path}/states", expect=405)


@check
def _(ironic: IronicUnderTest) -> None:
    """a slash at the end of a path changes nothing"""
    ironic.get_each("/v1/", f"nodes/{ironic.node()}/", "nodes/", "ports/")


@check
def _(ironic: IronicUnderTest) -> None:
    """an argument that no list of nodes has is refused"""
    for path in ("nodes", "nodes/detail", "ports", "allocations"):
        ironic.get(f"/v1/{path}?colour=red", expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """a provision request without a target, or with a strange one, is refused"""
    path = f"/v1/nodes/{ironic.node()}/states/provision"
    wrong = ({}, {"target": "ACTIVE"}, {"target": None}, {"target": 5})
    ironic.put_each(path, *wrong, {"target": "active", "colour": "red"}, expect=400)
    ironic.request("PUT", path, raw=b"{broken", expect=400)
