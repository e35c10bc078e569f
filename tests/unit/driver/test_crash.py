# SPDX-License-Identifier: Apache-2.0

"""The process dies at any request; called again, it ends as if nothing had happened."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.baremetal.http.connection import Answer, Channel
from tests import depth
from tests.crashing import Crash
from tests.unit.driver import stories
from tests.unit.driver.stage import Stage, make_conf, taken
from tests.unit.driver.stories import PLAIN, POOLS, PROJECTS, STORAGE, Act, Place, several

VERBS = ("active", "deleted", "rebuild", "unrescue")


@dataclasses.dataclass(frozen=True)
class Story:
    """An act in which the process dies.

    :ivar before: what has happened before, without any trouble.
    :ivar again: what the process that comes after it does; by default the same.
    """

    act: Act
    again: Act | None = None
    before: Act = stories.nothing
    place: Place = PLAIN

    @property
    def leaves_nothing(self) -> bool:
        """Whether it ends with the nodes as they were when they were free."""
        return (self.again or self.act) in (stories.destroy, stories.clean_up)


STORIES = {
    "a spawn": Story(stories.spawn),
    "a spawn, and then a delete": Story(stories.spawn, stories.destroy),
    "a spawn, and then a cleanup": Story(stories.spawn, stories.clean_up),
    "a spawn that fails": Story(
        stories.spawn_in_vain, stories.clean_up, before=stories.deployments_fail
    ),
    "a destroy": Story(stories.destroy, before=stories.spawn),
    "a destroy of what is reserved": Story(stories.destroy, before=stories.reserve),
    "a destroy of what is configured": Story(
        stories.destroy, before=stories.reserve_and_configure
    ),
    "a rebuild": Story(stories.rebuild, before=stories.spawn),
    "a rebuild that fails": Story(
        stories.rebuild_in_vain, before=several(stories.spawn, stories.deployments_fail)
    ),
    "a rescue": Story(stories.rescue, before=stories.spawn),
    "an unrescue": Story(stories.unrescue, before=several(stories.spawn, stories.rescue)),
    "an interface that comes": Story(stories.attach, before=stories.spawn),
    "an interface that goes": Story(stories.detach, before=several(stories.spawn, stories.attach)),
    "a console": Story(stories.open_console, before=stories.spawn, place=stories.CONSOLE),
    "a console that somebody has": Story(
        stories.open_console,
        before=several(stories.spawn, stories.open_console),
        place=stories.CONSOLE,
    ),
    "a spawn on any node": Story(stories.spawn, place=POOLS),
    "a spawn on any node, and then a delete": Story(stories.spawn, stories.destroy, place=POOLS),
    "a spawn on any node, and then a cleanup": Story(stories.spawn, stories.clean_up, place=POOLS),
    "a destroy on any node": Story(stories.destroy, before=stories.spawn, place=POOLS),
    "a spawn with a lessee": Story(stories.spawn, place=PROJECTS),
    "a destroy with a lessee": Story(stories.destroy, before=stories.spawn, place=PROJECTS),
    "a spawn from a volume": Story(stories.boot_from_volume, place=STORAGE),
    "a spawn from a volume, and then a delete": Story(
        stories.boot_from_volume, stories.destroy, place=STORAGE
    ),
    "a destroy with volumes": Story(
        stories.destroy, before=stories.boot_from_volume, place=STORAGE
    ),
}


class WatchedChannel:
    """A channel with a look before each request."""

    def __init__(self, channel: Channel, look: Callable[[], None]) -> None:
        self._channel = channel
        self._look = look

    def send(self, method: str, path: str, **request: Any) -> Answer:
        self._look()
        return self._channel.send(method, path, **request)


Point = tuple[int, bool]
"""The number of a request, and whether it is carried out."""


def points(conf: cfg.ConfigOpts, act: Act, *, before: Act, place: Place) -> Iterable[Point]:
    """Where to die, found in a life in which it does not die.

    To die before a request is the same case as to die before the previous one, if Ironic has not
    changed in between; and to die after one is to die before the next.  Only a nightly run tries
    them all.
    """
    fake, node = place.ironic()
    whole = Stage(fake, conf)
    before(whole, node)
    whole.driver.cleanup_host()
    living = Stage(fake, conf)
    found: list[Point] = []
    last: object = None

    def look(*, after: bool = False) -> None:
        nonlocal last
        changes = sum(entry.method != "GET" for entry in fake.requests)
        now = changes, fake.nodes(), fake.allocations()
        if now != last:
            found.append((living.channel.sent, after))
        last = now

    living.channel._channel = WatchedChannel(living.channel._channel, look)
    act(living, node)
    look(after=True)
    living.driver.cleanup_host()
    assert len(found) > 1, "it should be able to die in between"
    every = itertools.product(range(1, living.channel.sent + 1), (False, True))
    return depth.choose(found, list(every))


def crashes(
    directory: Path, act: Act, *, before: Act, place: Place
) -> Iterator[tuple[int, str, Stage, str]]:
    """Every stage on which ``act`` died at a request: at the first, the second, ..."""
    conf = make_conf(directory, **place.options)
    for at, after in points(conf, act, before=before, place=place):
        fake, node = place.ironic()
        whole = Stage(fake, conf)
        before(whole, node)
        whole.driver.cleanup_host()
        dying = Stage(fake, conf, crash_at=at, crash_after=after)
        try:
            with pytest.raises(Crash) as crash:
                act(dying, node)
            restarted = dying.restarted()
            where = f"died {'after' if after else 'before'} request {at}, {crash.value}"
            yield at, where, restarted, node
            restarted.driver.cleanup_host()
        finally:
            dying.driver.cleanup_host()


@pytest.mark.parametrize("story", STORIES.values(), ids=list(STORIES))
def test_called_again_it_ends_as_if_nothing_had_happened(tmp_path: Path, story: Story) -> None:
    again = story.again or story.act
    conf = make_conf(tmp_path, **story.place.options)
    fake, node = story.place.ironic()
    usual = Stage(fake, conf)
    free = stories.left(usual)
    several(story.before, story.act, *([story.again] if story.again else []))(usual, node)
    wanted, asked = stories.left(usual), [usual.provision_requests(verb) for verb in VERBS]
    usual.driver.cleanup_host()
    assert (wanted == free) is story.leaves_nothing
    for _, where, restarted, node in crashes(
        tmp_path, story.act, before=story.before, place=story.place
    ):
        again(restarted, node)
        assert stories.left(restarted) == wanted, where
        if story.again is None:
            assert [restarted.provision_requests(verb) for verb in VERBS] == asked, where


@pytest.mark.parametrize("place", [PLAIN, POOLS], ids=["picked here", "picked by Ironic"])
def test_a_build_is_finished_once_deployed_or_leaves_nothing(tmp_path: Path, place: Place) -> None:
    conf = make_conf(tmp_path, **place.options)
    fake, node = place.ironic()
    usual = Stage(fake, conf)
    free = stories.left(usual)
    stories.spawn(usual, node)
    whole = stories.left(usual)
    usual.driver.cleanup_host()
    ended = set()
    for _, where, restarted, node in crashes(
        tmp_path, stories.spawn, before=stories.nothing, place=place
    ):
        asked = restarted.provision_requests("active")
        try:
            restarted.driver.finish_spawn(stories.instance(restarted, node))
        except (exceptions.InstanceNotFound, exceptions.DeployFailed) as exc:
            ended.add(type(exc).__name__)
            assert not asked, where
            assert stories.left(restarted) == free, where
        else:
            ended.add("active")
            assert asked, where
            assert stories.left(restarted) == whole, where
        assert restarted.provision_requests("active") == asked, where
    assert ended == {"InstanceNotFound", "DeployFailed", "active"}


POWER_CALLS: dict[str, tuple[str, Act]] = {
    "on": ("power off", lambda stage, node: stage.driver.power_on(stage.instance(node))),
    "off": ("power on", lambda stage, node: stage.driver.power_off(stage.instance(node))),
    "soft off": (
        "power on",
        lambda stage, node: stage.driver.power_off(stage.instance(node), timeout=30),
    ),
    "reboot": ("power on", stories.reboot),
    "soft reboot": (
        "power on",
        lambda stage, node: stage.driver.reboot(stage.instance(node), "SOFT"),
    ),
}


@pytest.mark.parametrize("what", POWER_CALLS)
def test_a_power_call_goes_on(tmp_path: Path, what: str) -> None:
    power, act = POWER_CALLS[what]

    def before(stage: Stage, node: str) -> None:
        stories.spawn(stage, node)
        stage.fake.set_node(node, power_state=power)

    wanted = "power off" if what.endswith("off") else "power on"
    before_it_waits = 3  # its versions, the node, the change
    for at, where, restarted, node in crashes(tmp_path, act, before=before, place=PLAIN):
        act(restarted, node)
        now = restarted.fake.node(node)
        assert (now["power_state"], now["target_power_state"]) == (wanted, None)
        changes = len(taken(restarted.fake, "power"))
        # A change that had ended when the process died looks like one that never began.
        assert 1 <= changes <= (1 if at <= before_it_waits else 2), where
