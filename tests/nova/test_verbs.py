# SPDX-License-Identifier: Apache-2.0

"""A few cells of the table of verbs; ``make verbs-check`` asks for all of them."""

import pytest

from benchmarks.verbs import __main__ as verbs
from tests.nova import figures

_ASKED = ("rename", "create an image", "stop", "delete")


@pytest.mark.nightly
@pytest.mark.parametrize("state", ["running", "in ERROR"])
def test_the_table_says_what_becomes_of_a_verb(state: str) -> None:
    answers = (verbs.ask(driver, state, _ASKED) for driver in (figures.OURS, figures.IN_TREE))
    table = verbs.read(verbs.TABLE)
    cells = verbs.cells_of(*answers)
    assert cells == {key: table[key] for key in cells}
