# SPDX-License-Identifier: Apache-2.0

"""The page for those who begin with Nova: its flavor gets one node, and "Try" works.

What else is on it: :mod:`tests.nova.test_deployers` loads its files.
"""

import argparse
import shlex

from tests.functional import typed
from tests.nova.fleets import Fleet

PAGE = typed.ROOT / "doc" / "source" / "start" / "nova.rst"


def lines(heading: str) -> list[list[str]]:
    """The commands of a section, in words."""
    return [shlex.split(line) for line in typed.commands(typed.section(PAGE, heading))]


class TestStartPage(Fleet):
    """One service with one node of the page's resource class."""

    def setUp(self) -> None:
        super().setUp()
        (self.node,) = self.make_nodes(1, resource_class="gold")
        self.start_compute("compute-a")

    def make_flavor_of_page(self) -> str:
        """What ``openstack`` would ask of Nova."""
        (words,) = lines("A Nova without Ironic so far")
        assert words[:3] == ["openstack", "flavor", "create"]
        parser = argparse.ArgumentParser()
        for size in ("--vcpus", "--ram", "--disk"):
            parser.add_argument(size, type=int, required=True)
        parser.add_argument("--property", action="append")
        parser.add_argument("name")
        told = parser.parse_args(words[3:])
        return self._create_flavor(
            name=told.name,
            vcpu=told.vcpus,
            memory_mb=told.ram,
            disk=told.disk,
            ephemeral=0,
            extra_spec=dict(one.split("=") for one in told.property),
        )

    def test_a_server_of_the_pages_flavor_is_built_and_deleted(self) -> None:
        check = ["ironic-virt-fleet", "check"]
        readme = typed.commands(typed.section(typed.ROOT / "README.rst", "In Nova"))
        assert lines("Check") == [check]
        assert " ".join(check) in readme
        flavor = self.make_flavor_of_page()
        hypervisors, create, delete, last = lines("Try")
        assert hypervisors == ["openstack", "hypervisor", "list"]
        found = self.api.api_get("/os-hypervisors").body["hypervisors"]
        assert [one["hypervisor_hostname"] for one in found] == [self.node]
        assert (create[:3], create[-1]) == (["openstack", "server", "create"], "try")
        assert (delete[:3], delete[-1]) == (["openstack", "server", "delete"], "try")
        server = self.new_server(create[-1], flavorRef=flavor)
        assert self.fake.node(self.node)["instance_uuid"] == server["id"]
        self.delete(server)
        assert last == check
        self.check()
        assert self.fake.node(self.node)["instance_uuid"] is None
