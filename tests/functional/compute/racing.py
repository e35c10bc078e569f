# SPDX-License-Identifier: Apache-2.0

"""A process that races others for nodes, started by the tests of claims.

Its arguments are ``GATE CONFIG SEED TRIES``.  It picks nodes from a
few candidates and claims them, each for its own instance, until there is none
left or it has tried often enough.  Prints a line ``instance node`` for each win, and
``lost`` for each node that another has claimed meanwhile.

The first candidates are looked up before it says that it is ready.  They are the same for all,
and fewer than four: of four processes one loses at least, however they get their turns.
"""

import random
import uuid
from collections.abc import Sequence
from typing import Any

from ironic_virt.compute import errors
from ironic_virt.compute.db import Database
from ironic_virt.conf import database as options
from tests.functional.compute.races import begin, say
from tests.functional.compute.stage import Clock, create_building, new_instance

CANDIDATES = 3


def main(argv: Sequence[str]) -> None:
    gate, path, seed, tries = argv
    rng = random.Random(int(seed))
    # All begin at the same nodes, so that they meet.
    start = random.Random(1)
    db = Database(options.load([path]), clock=Clock()).open()

    def look() -> Sequence[Any]:
        first = str(uuid.UUID(int=start.getrandbits(128)))
        return db.candidates.offer(first, CANDIDATES).records

    found = look()
    begin(gate)
    for _ in range(int(tries)):
        if not found:
            break
        new = new_instance(uuid=str(uuid.UUID(int=rng.getrandbits(128))), display_name=None)
        try:
            made = create_building(db, new, rng.choice(found))
        except errors.ClaimLost:
            say("lost")
        else:
            say(f"{made.uuid} {made.node}")
        found = look()
