# SPDX-License-Identifier: Apache-2.0

"""What lies below the API: methods, headers, paths, bodies and their limits."""

from tests.conformance.checks.nodes_patch import add
from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IronicUnderTest

NEW_NODE = b'{"driver": "fake-hardware", "uuid": "11111111-2222-4333-8444-555555555555"}'


@check_each("/", "/v1", "/v1/nodes", "/v1/nodes/{node}", "/v1/nodes/nothing", "/v1/nothing")
def _(ironic: IronicUnderTest, path: str) -> None:
    """what HEAD and OPTIONS say of {}"""
    path = path.format(node=ironic.node())
    for method in ("HEAD", "OPTIONS"):
        ironic.request(method, path, expect=ANY)


@check_each(
    *("image/*", "application/*", "application/xml", "nonsense", ""),
    *("application/json;q=0.5, text/html", "text/html, */*;q=0.1", "application/json;q=0"),
)
def _(ironic: IronicUnderTest, accept: str) -> None:
    """what who accepts '{}' is answered"""
    node = ironic.node()
    for path in ("/", "/v1", "/v1/nodes", f"/v1/nodes/{node}", "/v1/nodes/nothing"):
        ironic.get(path, headers={"Accept": accept}, expect=ANY)


@check_each("//v1/nodes", "/v1/nodes//{node}", "/v1/nodes/{node}//ports")
def _(ironic: IronicUnderTest, path: str) -> None:
    """what is found at {}"""
    ironic.get(path.format(node=ironic.node()), expect=ANY)


@check_each("1.1", "1.90", "1.91", None)
def _(ironic: IronicUnderTest, version: str | None) -> None:
    """whether version {} knows paths that end in .json"""
    node, named = ironic.node(), ironic.node(name="n.json")
    port = ironic.port(node)
    for path in (
        *("", "/nodes", "/ports/" + port, "/nothing", "/nodes/detail"),
        *(f"/nodes/{node}", f"/nodes/{named}", "/nodes/n", "/nodes/n.json"),
        f"/nodes/{node}/states",
    ):
        ironic.get(f"/v1{path}.json", version=version, expect=ANY)
    new = add("/extra/a", 1)
    ironic.patch(f"/v1/nodes/{node}.json", new, version=version, expect=ANY)
    ironic.delete(f"/v1/nodes/{node}.json", version=version, expect=ANY)


@check_each(
    ("a list of 25", b'{"extra": ' + b"[" * 24 + b"]" * 24 + b"}"),
    ("a list of 26", b'{"extra": ' + b"[" * 25 + b"]" * 25 + b"}"),
    ("a text that looks like it", b'{"extra": "\\"' + b"[" * 30 + b'"}'),
    ("more than the parser bears", b"[" * 100_000),
)
def _(ironic: IronicUnderTest, what: str, body: bytes) -> None:
    """how deep a body may be: {}"""
    node = ironic.node()
    ironic.request("POST", "/v1/nodes", raw=body, expect=ANY)
    ironic.request("PUT", f"/v1/nodes/{node}/states/provision", raw=body, expect=ANY)
    ironic.request("GET", "/v1/nodes", raw=body, expect=ANY)


@check_each(("just as large", 0), ("larger", 1))
def _(ironic: IronicUnderTest, what: str, more: int) -> None:
    """what becomes of a body that is {} than is allowed"""
    node = ironic.node()
    body = b" " * ((1 << 20) + more)
    for path, method in (("nodes", "POST"), (f"nodes/{node}", "PATCH"), ("nodes", "GET")):
        ironic.request(method, f"/v1/{path}", raw=body, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a body may be larger where it may hold a config drive"""
    node = ironic.node()
    path = f"/v1/nodes/{node}/states/provision"
    ironic.request("PUT", path, raw=b'{"target": "x"' + b" " * (1 << 20) + b"}", expect=400)
    ironic.request("PUT", path, raw=b" " * ((64 << 20) + 1), expect=413)


@check_each(
    *("text/plain", "application/xml", "text/json", "application/json; charset=utf-8", ""),
    ("None", None),
)
def _(ironic: IronicUnderTest, content_type: str, sent: str | None = "") -> None:
    """what a body of type '{}' is taken for"""
    uuid = ironic.node()
    node = f"nodes/{uuid}"
    of_node = f'{{"node_uuid": "{uuid}", "address": "02:00:00:00:00:01"}}'.encode()
    for method, path, body in (
        ("POST", "nodes", NEW_NODE),
        *(("POST", "ports", of_node), ("POST", "portgroups", of_node)),
        ("POST", "allocations", b'{"resource_class": "gold"}'),
        ("POST", f"{node}/vifs", b'{"id": "6b9dc1b3-1b7e-44a5-9d44-61bd6ec4f2f0"}'),
        ("PUT", f"{node}/traits", b'{"traits": ["CUSTOM_A"]}'),
        ("PUT", f"{node}/maintenance", b'{"reason": "because"}'),
        ("PATCH", node, b'[{"op": "add", "path": "/extra/a", "value": 1}]'),
        *(("PUT", f"{node}/states/{one}", b'{"target": "x"}') for one in ("power", "provision")),
    ):
        headers = {"Content-Type": content_type if sent == "" else sent}
        ironic.request(method, f"/v1/{path}", raw=body, headers=headers, expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """a body that comes in chunks is read"""
    ironic.request("POST", "/v1/nodes", raw=iter((NEW_NODE[:27], NEW_NODE[27:])), expect=ANY)
    ironic.get("/v1/nodes")


@check
def _(ironic: IronicUnderTest) -> None:
    """what is said to a body that is not UTF-8"""
    node = ironic.node()
    for method, path in (
        *(("POST", "nodes"), ("PATCH", f"nodes/{node}"), ("POST", "ports")),
        *(("PUT", f"nodes/{node}/states/power"), ("PUT", f"nodes/{node}/states/provision")),
        ("POST", "allocations"),
    ):
        ironic.request(method, f"/v1/{path}", raw=b'{"target": "\xff\xfe"}', expect=ANY)
        ironic.request(method, f"/v1/{path}", raw=b'{"target": "\\ud800"}', expect=ANY)


@check_each("%ff", "%00", "%F0%9F%92%A9", "..", "%2e%2e", "a%0ab")
def _(ironic: IronicUnderTest, name: str) -> None:
    """what is found at a path with {}"""
    ironic.get_each("/v1/", f"nodes/{name}", name, f"nodes?instance_uuid={name}", expect=ANY)
