# SPDX-License-Identifier: Apache-2.0

"""Who has which node by the records, and while an instance keeps it."""

from ironic_virt.sharding import claims


def test_by_the_records_a_node_of_another_host_is_left() -> None:
    owners = {"n1": "Me", "n2": "other"}
    claim = claims.claim_by_records(["n1", "n2", "n3"], "me", owners)
    assert claim.nodes == {"n1", "n3"}
    assert claim.foreign == {"n2": "other"}


def test_a_node_outside_is_claimed_while_it_has_its_instance() -> None:
    claim = claims.Claim(frozenset({"n0"}), elsewhere={"i1": "n1", "i2": "n2"})
    assert [uuid for uuid in ("n0", "n1", "n2", "n3") if uuid in claim] == ["n0", "n1", "n2"]
    assert claims.with_sighting(claim, "n1", "i1") == claim
    for instance in (None, "i2", "i3"):
        after = claims.with_sighting(claim, "n1", instance)
        assert (after.nodes, after.elsewhere) == ({"n0"}, {"i2": "n2"})
    assert claims.with_sighting(claim, "n3", None) is claim
