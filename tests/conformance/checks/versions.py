# SPDX-License-Identifier: Apache-2.0

"""Version documents, and what a server says to each version that is asked for."""

from tests.conformance.registry import check, check_each
from tests.conformance.subject import VERSION_HEADER, IronicUnderTest


@check
def _(ironic: IronicUnderTest) -> None:
    """the root lists the API's versions, says which one it was asked for, or refuses it"""
    body = ironic.get("/", version=None).body
    assert body["default_version"]["version"] == "1.115"
    assert body["versions"][0]["min_version"] == "1.1"
    for version in ("1.38", "latest"):
        ironic.get("/", version=version)
    for version in ("1.999", "9.9", "nonsense"):
        ironic.get("/", version=version, expect=406)


@check_each(
    ("without a version the oldest one is spoken", "1.1", None),
    ("latest means the newest version that the server speaks", "1.115", "latest", "LATEST"),
)
def _(ironic: IronicUnderTest, _: str, spoken: str, *versions: str | None) -> None:
    """{}"""
    for version in versions:
        assert ironic.get("/v1/nodes", version=version).headers[VERSION_HEADER] == spoken


@check_each("1.1", "1.30", "1.40", "1.41", "1.52", "1.57", "1.80", "1.93", "1.115", "latest")
def _(ironic: IronicUnderTest, version: str) -> None:
    """the document of v1 at {} names the resources of that version"""
    body = ironic.get("/v1", version=version).body
    assert body["version"]["version"] == "1.115"
    ironic.get("/v1/", version=version)


@check_each("1.116", "1.999", "1.0", "2.0", "2.1", "0.9")
def _(ironic: IronicUnderTest, version: str) -> None:
    """version {} is not acceptable"""
    answer = ironic.get("/v1/nodes", version=version, expect=406)
    assert answer.headers["X-OpenStack-Ironic-API-Maximum-Version"] == "1.115"
    ironic.get("/v1", version=version, expect=406)


@check_each("1", "one", "1.x", "1.2.3", "1,38", "-1.5", "1.38;q=1")
def _(ironic: IronicUnderTest, version: str) -> None:
    """a version of the form '{}' is not understood"""
    ironic.get("/v1/nodes", version=version, expect=406)


@check
def _(ironic: IronicUnderTest) -> None:
    """errors say which version was spoken, and the general header is understood"""
    general = {"OpenStack-API-Version": "baremetal 1.38"}
    for answer in (
        ironic.get("/v1/nodes/nothing", version="1.38", expect=404),
        ironic.get("/v1/nodes", version=None, headers=general),
    ):
        assert answer.headers[VERSION_HEADER] == "1.38"


@check_each(
    ("allocations", 52), ("shards", 82), ("conductors", 49), ("portgroups", 23), ("volume", 32)
)
def _(ironic: IronicUnderTest, resource: str, minor: int) -> None:
    """{} is not there before its version"""
    ironic.get(f"/v1/{resource}", version=f"1.{minor - 1}", expect=404)
    ironic.get(f"/v1/{resource}", version=f"1.{minor}")
