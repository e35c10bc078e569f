# SPDX-License-Identifier: Apache-2.0

"""Whether a process reaches what it needs, by looks that may each fail or hang."""

import threading

from ironic_virt.driver.reach import Reach


class World:
    """Ironic and a broker; each is away or there."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.away: set[str] = set()
        self.reach = Reach(
            {name: lambda name=name: self.look(name) for name in ("Ironic", "RPC")},
            clock=lambda: self.now,
        )

    def look(self, name: str) -> None:
        if name in self.away:
            raise OSError("no answer")

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        for name in ("Ironic", "RPC"):
            self.reach.look(name)


def test_what_was_not_reached_for_so_long_is_lacking() -> None:
    world = World()
    assert world.reach.lacks(30) == "Ironic, RPC", "nobody has looked yet"
    world.pass_by(0)
    assert world.reach.lacks(30) == ""
    world.away = {"RPC"}
    world.pass_by(30)
    assert world.reach.lacks(30) == ""
    world.pass_by(1)
    assert world.reach.lacks(30) == "RPC"
    assert world.reach.lacks(60) == ""
    world.away = set()
    world.pass_by(1)
    assert world.reach.lacks(30) == ""


def test_a_look_that_hangs_stops_no_other_one() -> None:
    hangs, looked = threading.Event(), threading.Event()
    now = 1000.0
    reach = Reach({"Ironic": hangs.wait, "RPC": looked.set}, clock=lambda: now)
    reach.begin()
    assert looked.wait(10)
    for thread in threading.enumerate():
        if thread.name == "ironic-virt-reach-RPC":
            thread.join(0.1)
    assert reach.lacks(30).startswith("Ironic")
    hangs.set()
