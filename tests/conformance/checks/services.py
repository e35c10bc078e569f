# SPDX-License-Identifier: Apache-2.0

"""What is there beside nodes: shards, conductors, drivers."""

from tests.conformance.registry import check, check_each
from tests.conformance.subject import ANY, IronicUnderTest


@check
def _(ironic: IronicUnderTest) -> None:
    """shards are counted"""
    assert ironic.get("/v1/shards").body == {"shards": []}
    for shard in ("a", "b", "a", None):
        ironic.node(**({} if shard is None else {"shard": shard}))
    counts = ironic.get("/v1/shards").body["shards"]
    # Those without a shard are counted under a text that says so.
    assert sorted((row["name"], row["count"]) for row in counts) == [
        ("None", 1),
        ("a", 2),
        ("b", 1),
    ]
    ironic.get("/v1/shards/a", expect=404)
    ironic.get("/v1/shards?limit=1", expect=ANY)


@check
def _(ironic: IronicUnderTest) -> None:
    """the conductor is listed with its group, and shown with its drivers"""
    (conductor,) = ironic.get("/v1/conductors").body["conductors"]
    assert (conductor["hostname"], conductor["conductor_group"]) == ("conductor-1", "")
    ironic.get("/v1/conductors?detail=true")
    ironic.get("/v1/conductors/conductor-1")
    ironic.get("/v1/conductors/conductor-1?fields=hostname,alive")
    ironic.get("/v1/conductors?fields=hostname,conductor_group")
    ironic.get("/v1/conductors?fields=colour", expect=ANY)
    ironic.get("/v1/conductors/conductor-2", expect=404)
    ironic.get("/v1/conductors?limit=1")
    ironic.get("/v1/conductors?colour=red", expect=400)


@check_each(1, 14, 30, 31, 77, 115)
def _(ironic: IronicUnderTest, minor: int) -> None:
    """drivers at version 1.{} have the fields of that version"""
    ironic.get("/v1/drivers", version=f"1.{minor}")


@check
def _(ironic: IronicUnderTest) -> None:
    """a driver that no conductor has is not there"""
    ironic.get("/v1/drivers/steam", expect=404)
    ironic.get("/v1/drivers/steam/properties", expect=404)
    ironic.get("/v1/drivers/fake-hardware/properties")
    ironic.get("/v1/drivers?type=dynamic")
    ironic.get("/v1/drivers?type=classic")
    ironic.get("/v1/drivers?type=steam", expect=ANY)
