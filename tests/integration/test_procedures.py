# SPDX-License-Identifier: Apache-2.0

"""The pages of procedures, followed to the letter on the real Ironic."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.functional.procedures import stories
from tests.functional.procedures.site import Site
from tests.integration.services import SEEDS, Operator
from tools import real_ironic

_BY_DAY = (stories.shard_between_services, stories.failover)
"""All of them run on the fake Ironic each day."""


@pytest.fixture(scope="module")
def own_ironic(ironic_environment, progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic on which there are no nodes but these tests'."""
    with real_ironic.RealIronic(
        environment=ironic_environment, progress=progress, database=real_ironic.MARIADB
    ) as ironic:
        yield ironic


@pytest.fixture
def site(tmp_path: Path, own_ironic: real_ironic.RealIronic) -> Iterator[Site]:
    site = Site(tmp_path, own_ironic.url, f"sqlite:///{tmp_path}/records.sqlite")
    yield site
    site.close()


def forget(operator: Operator, nodes: Iterable[str]) -> None:
    """Remove nodes from any state that a story has left them in."""
    for node in nodes:
        operator.at_rest(node)
        operator.force(node, provision_state="available", instance_uuid=None, allocation_id=None)
        operator.request("DELETE", f"/nodes/{node}")


# Each is some thirty processes one after the other.
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, marks=[] if story in _BY_DAY else pytest.mark.seldom)
        for story in stories.STORIES
    ],
    ids=lambda story: story.__name__,
)
def test_a_page_does_what_it_promises_on_the_real_ironic(story, site, own_ironic) -> None:
    operator = Operator(own_ironic)
    made: list[str] = []
    numbers = itertools.count()

    def make_node(name: str, *, shard: str | None = None, manageable: bool = False) -> str:
        template = real_ironic.NodeTemplate(resource_class="gold", shard=shard)
        # A number in braces is what distinguishes nodes made at once; there is one.
        (uuid,) = real_ironic.create_nodes(
            own_ironic, 1, template, name=name, seed=next(SEEDS) * 100 + next(numbers)
        )
        made.append(uuid)
        if manageable:
            operator.provision(uuid, "manage")
            operator.wait_for_state(uuid, "manageable")
        return uuid

    try:
        story(site, make_node)
    except BaseException:
        # The next page has its nodes' names for itself.
        forget(operator, made)
        raise

    servers = [row["Name"] for row in site.read("ironic-virt server list")]
    site.run(f"ironic-virt server delete --wait {' '.join(servers)}")
    for node in made:
        operator.wait_for_state(node, "available")
        assert operator.node(node)["instance_uuid"] is None
        operator.request("DELETE", f"/nodes/{node}")
