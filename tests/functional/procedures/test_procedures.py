# SPDX-License-Identifier: Apache-2.0

"""The pages of procedures, followed to the letter on the fake Ironic."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests.functional.procedures import pages, stories
from tests.functional.procedures.site import Site

# Some thirty commands, each its own process, on a host that may be busy.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def site(tmp_path: Path, fake_ironic_server: FakeIronicServer) -> Iterator[Site]:
    site = Site(tmp_path, fake_ironic_server.url, f"sqlite:///{tmp_path}/records.sqlite")
    yield site
    site.close()


@pytest.mark.parametrize("story", stories.STORIES, ids=lambda story: story.__name__)
def test_a_page_does_what_it_promises(story, site, fake_ironic_server) -> None:
    def make_node(name: str, *, shard: str | None = None, manageable: bool = False) -> str:
        state = {"provision_state": "manageable"} if manageable else {}
        return fake_ironic_server.fake.add_node(
            name=name, shard=shard, resource_class="gold", **state
        )

    story(site, make_node)


def test_every_page_of_procedures_has_its_story() -> None:
    toctree = (pages.ADMIN / "procedures.rst").read_text()
    listed = re.findall(r"^   (\w+)$", toctree, re.MULTILINE)
    assert sorted(listed) == sorted(story.__name__ for story in stories.STORIES)
