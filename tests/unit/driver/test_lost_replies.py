# SPDX-License-Identifier: Apache-2.0

"""A reply is lost, or a request: it happens once, and all ends well."""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from ironic_virt.testing.fake_ironic import FakeIronic
from tests import depth
from tests.unit.driver import stories
from tests.unit.driver.stage import Stage, make_conf, taken
from tests.unit.driver.stories import PLAIN, Act, Place

WAYS = ["lose_reply", "reset", "truncate"]


@dataclasses.dataclass(frozen=True)
class Life:
    """What happens to an instance, one act after the other."""

    acts: tuple[Act, ...]
    place: Place = PLAIN


LIVES = {
    "plain": Life((stories.spawn, stories.reboot, stories.rebuild, stories.destroy)),
    "interfaces": Life((stories.spawn, stories.attach, stories.detach)),
    "any node": Life((stories.spawn, stories.destroy), stories.POOLS),
    "with a lessee": Life((stories.spawn, stories.destroy), stories.PROJECTS),
    "with volumes": Life((stories.boot_from_volume, stories.destroy), stories.STORAGE),
}


def lived(
    conf: cfg.ConfigOpts, life: Life, trouble: Callable[[FakeIronic, str], Any] | None = None
) -> tuple[list[Any], list[str], Any]:
    """What was left after each act, the methods of the requests, and the trouble."""
    fake, node = life.place.ironic()
    stage = Stage(fake, conf)
    rule = trouble(fake, node) if trouble else None
    seen: list[Any] = []
    for act in life.acts:
        act(stage, node)
        seen.append(stories.left(stage))
    stage.driver.cleanup_host()
    verbs = ("active", "rebuild", "deleted")
    seen.append([stage.provision_requests(verb) for verb in verbs])
    return seen, [entry.method for entry in fake.requests], rule


def survive(
    directory: Path,
    life: Life,
    trouble: Callable[[int, FakeIronic, str], Any],
    is_tried: Callable[[int, str], bool] = lambda nth, method: True,
) -> int:
    """See that a life is the same whichever request the trouble comes with.

    :param is_tried: given a request's number and method, whether it is one of these.
    :returns: how many requests there were.
    """
    conf = make_conf(directory, **life.place.options)
    usual, methods, _ = lived(conf, life)
    for nth, method in enumerate(methods, 1):
        if is_tried(nth, method):
            seen, _, rule = lived(conf, life, functools.partial(trouble, nth))
            assert seen == usual, f"request {nth}"
            assert rule.hits, f"request {nth}"
    return len(methods)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("life", LIVES.values(), ids=list(LIVES))
def test_whichever_reply_is_lost_an_instance_lives_the_same(tmp_path, life, way) -> None:
    def trouble(nth: int, fake: FakeIronic, _: str) -> Any:
        return getattr(fake.faults, way)(nth=nth)

    def is_tried(nth: int, method: str) -> bool:
        # In whichever way a look is lost, it is only taken again.
        one_way = method != "GET" or WAYS[nth % len(WAYS)] == way
        return depth.choose(one_way, nightly=True)

    assert survive(tmp_path, life, trouble, is_tried) > 10


@pytest.mark.parametrize("status", [409, 503])
def test_whichever_request_fails_an_instance_lives_the_same(tmp_path: Path, status: int) -> None:
    def trouble(nth: int, fake: FakeIronic, node: str) -> Any:
        body = f"Node {node} is locked by host x, please retry" if status == 409 else None
        return fake.faults.status(status, nth=nth, count=2, body=body)

    assert survive(tmp_path, LIVES["plain"], trouble) > 15


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_change_of_state_that_a_proxy_sends_twice_happens_once(tmp_path: Path, nth: int) -> None:
    conf = make_conf(tmp_path)
    usual, _, fake = lived(conf, LIVES["plain"], lambda fake, _: fake)
    seen, _, disturbed = lived(conf, LIVES["plain"], functools.partial(send_twice, nth))
    assert seen[:-1] == usual[:-1]
    assert taken(disturbed) == taken(fake) == ["active", "rebuild", "deleted"]


def send_twice(nth: int, fake: FakeIronic, _: str) -> FakeIronic:
    """Have the fake get the nth change of a state two times; the second answer counts."""
    handle = fake.handle
    count = itertools.count(1)

    def twice(method: str, path: str, *more: Any) -> Any:
        if path.endswith("/states/provision") and next(count) == nth:
            handle(method, path, *more)
        return handle(method, path, *more)

    fake.handle = twice  # type: ignore[method-assign]
    return fake
