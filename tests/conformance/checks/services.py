# SPDX-License-Identifier: Apache-2.0

"""Everything but nodes: shards, conductors, drivers."""

from tests.conformance.registry import check
from tests.conformance.subject import ANY, IronicUnderTest


@check
def _(ironic: IronicUnderTest) -> None:
    """shards are counted"""
    assert ironic.get("/v1/shards").body == {"shards": []}
    for fields in ({"shard": "a"}, {"shard": "b"}, {"shard": "a"}, {}):
        ironic.node(**fields)
    counts = {row["name"]: row["count"] for row in ironic.get("/v1/shards").body["shards"]}
    # Those without a shard are counted under a text that says so.
    assert counts == {"None": 1, "a": 2, "b": 1}
    ironic.get("/v1/shards/a", expect=404)
    ironic.get("/v1/shards?limit=1", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """the conductor is listed with its group, and shown with its drivers"""
    path = "/v1/conductors"
    (conductor,) = ironic.get(path).body["conductors"]
    assert (conductor["hostname"], conductor["conductor_group"]) == ("conductor-1", "")
    ironic.get_each(path, "?detail=true", "/conductor-1", "/conductor-1?fields=hostname,alive")
    ironic.get_each(path, "?fields=hostname,conductor_group", "?limit=1")
    ironic.get(f"{path}?fields=colour", expect=ANY)
    ironic.get(f"{path}/conductor-2", expect=404)
    ironic.get(f"{path}?colour=red", expect=400)


@check
def _(ironic: IronicUnderTest) -> None:
    """a driver that no conductor has is not there"""
    ironic.get_each("/v1/drivers/steam", "", "/properties", expect=404)
    ironic.get_each("/v1/drivers", "/fake-hardware/properties", "?type=dynamic", "?type=classic")
    ironic.get("/v1/drivers?type=steam", expect=ANY)
