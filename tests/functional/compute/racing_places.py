# SPDX-License-Identifier: Apache-2.0

"""A process that races others for places in pools, started by the tests of pools.

Its arguments are ``GATE CONFIG SEED TRIES``.  It takes a place for an instance, moves it to
another pool or deletes it, as chance has it, so often.  Prints a line ``most POOL ...``
whenever it sees a pool that is too full.
"""

import random
import uuid
from collections.abc import Sequence

from ironic_virt.compute import errors
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState
from ironic_virt.conf import database as options
from tests.functional.compute.races import begin, say
from tests.functional.compute.stage import Clock, create_building, deleted, new_instance

FAULT = records.Fault("no")


def main(argv: Sequence[str]) -> None:
    gate, path, seed, tries = argv
    rng = random.Random(int(seed))
    db = Database(options.load([path]), clock=Clock()).open()
    begin(gate)
    # It grows if more places are given than there are.
    totals = {pool.name: pool.total for pool in db.pools.list()}
    mine: set[str] = set()
    lost = 0
    for _ in range(int(tries)):
        pool = rng.choice(db.pools.list())
        chance = rng.random()
        try:
            if not mine or chance < 0.5:
                new = new_instance(uuid=str(uuid.UUID(int=rng.getrandbits(128))))
                create_building(db, new, pool)
                mine.add(new.uuid)
            elif chance < 0.75:
                one = rng.choice(sorted(mine))
                db.instances.reschedule(db.instances.get(one), pool, FAULT)
            else:
                one = rng.choice(sorted(mine))
                db.instances.request(one, TaskState.DELETING)
                deleted(db, one)
                mine.remove(one)
        except errors.ClaimLost:
            lost += 1
        for seen in db.pools.list():
            if seen.total > totals[seen.name]:
                say(f"most {seen.name} {seen.used} of {totals[seen.name]}")
    say(f"lost {lost}")
