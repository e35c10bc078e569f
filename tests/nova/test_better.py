# SPDX-License-Identifier: Apache-2.0

"""Cases in which Nova's in-tree driver does harm or waits forever, and ours doesn't."""

import re
from collections.abc import Iterator
from typing import ClassVar

import pytest
from nova import exception
from nova.api.openstack import api_version_request

from tests.nova import figures
from tests.nova.deployment import IMAGE, OTHER_IMAGE, Deployment
from tools import real_ironic

NEWEST = api_version_request.max_api_version().get_string()


@pytest.fixture(scope="module")
def old_ironic(progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic that has never heard of shards."""
    options = real_ironic.Options(max_api_version="1.81")
    with real_ironic.RealIronic(options, progress=progress) as ironic:
        yield ironic


class NoShards(Deployment, given="old_ironic", starts=True):
    """A compute service of one shard, at an Ironic without shards."""

    options: ClassVar = {"shard": "a"}

    def setUp(self) -> None:
        super().setUp()
        self.nodes = self.make_nodes(1)


class TestNoShardsInTree(NoShards, driver=figures.IN_TREE):
    """Nova's own driver."""

    def test_it_takes_everybodys_nodes(self) -> None:
        compute = self.start_service("compute", "compute1")
        assert set(self.nodes) <= set(compute.manager.driver.get_available_nodes())


class TestNoShards(NoShards, driver=figures.OURS):
    """Ours."""

    def test_it_does_not_start(self) -> None:
        with pytest.raises(
            exception.InvalidConfiguration, match=r"needs Ironic API version 1\.90"
        ):
            self.start_service("compute", "compute1")
        assert self.api.api_get("/os-hypervisors").body["hypervisors"] == []


class RebuildOfNow(Deployment, starts=True):
    """A rebuild by an API that says "the boot volume too" of every server."""

    def setUp(self) -> None:
        super().setUp()
        self.bare_metal = self.start_with_a_node()
        self.booted = self.new_server()
        self.say_image_type(self.bare_metal)


class TestRebuildOfNowInTree(RebuildOfNow, driver=figures.IN_TREE):
    """Nova's own driver."""

    def test_a_server_without_any_volume_fails_for_having_one(self) -> None:
        self.rebuild(self.booted, IMAGE, microversion="2.93")
        failed = self.wait_for(self.booted, "ERROR")
        assert "volume backed" in failed["fault"]["message"]


class TestRebuildOfNow(RebuildOfNow, driver=figures.OURS):
    """Ours."""

    def test_a_server_without_any_volume_is_rebuilt(self) -> None:
        before = self.deployed_long_ago(self.bare_metal)
        self.rebuild(self.booted, IMAGE, microversion="2.93")
        self.until(
            lambda: self.node(self.bare_metal),
            lambda now: now["provision_updated_at"] != before,
        )
        self.wait_for(self.booted, "ACTIVE")
        self.rebuild(self.booted, microversion=NEWEST)
        self.until(
            lambda: self.node(self.bare_metal)["instance_info"]["image_source"],
            lambda now: now == OTHER_IMAGE,
        )
        self.wait_for(self.booted, "ACTIVE")
        assert self.node(self.bare_metal)["provision_state"] == "active"


@pytest.mark.seldom
class TestTimeout(Deployment, given="slow_ironic", driver=figures.OURS):
    """A deployment that takes longer than it may."""

    def test_it_ends_is_undone_and_told_of(self) -> None:
        self.start_nova(self._real, deploy_timeout=5)
        node = self.start_with_a_node()
        server = self.wait_for(self.boot(), "ERROR")
        told = self.told_by_the_events(server)
        # The text has the seconds of the wait, which are more on a busy machine.
        found = re.search(
            r"timed out after (\d+) s waiting to become active \(\[ironic\] deploy_timeout\)", told
        )
        assert found is not None, told
        assert int(found[1]) >= 5
        assert self.wait_for_node(node, "available")["instance_uuid"] is None
