# SPDX-License-Identifier: Apache-2.0

"""A short version of ``make any-state``: a draw in which each state comes up."""

import random

import pytest

from tests.any_state import triples, world
from tests.nova import figures

_TRIPLES = 60


# pytest would take the class itself for a test if it had a name here.
@pytest.mark.nightly
class TestAnyState(world.World):
    """One deployment, in which each node is in another state."""

    def test_all_end_sound_or_with_a_name(self) -> None:
        drawn = list(triples.draw(_TRIPLES, 1))
        assert {one.provision for one in drawn} == set(triples.AXES["provision"])
        self.stage(drawn, 1, figures.OURS)
        outcomes = self.judge()
        assert [one for one in outcomes if one.unsafe] == []
        assert sum(bool(one.names) for one in outcomes) <= _TRIPLES * 0.05


def test_what_is_drawn_can_be() -> None:
    drawn = list(triples.draw(500, random.randrange(1000)))
    assert len(set(drawn)) == len(drawn)
    assert {triples.why_impossible(one) for one in drawn} == {None}
