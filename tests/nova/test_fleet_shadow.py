# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet shadow``: what both drivers say of a fleet in all states."""

from __future__ import annotations

import itertools
import shlex
from typing import Any

import pytest
import requests_mock
from keystoneauth1 import fixture, session
from keystoneauth1.identity import v2, v3

from ironic_virt.baremetal import states
from ironic_virt.exit_codes import FleetExitCode
from ironic_virt.fleet import drivers, shadow
from tests.functional import typed
from tests.nova.fleets import Fleet

OTHERS = "5c0d0f6e-0000-4000-8000-{:012d}"
NODES = 500
"""More than there are combinations of what a node can be like."""


class TestShadow(Fleet):
    """One service with two servers."""

    def setUp(self) -> None:
        super().setUp()
        self.make_nodes(3, shard="a", traits=["CUSTOM_SSD"])
        self.a = self.start_compute("compute-a", shard="a")
        self.servers = [self.boot(f"server-{number}")["id"] for number in range(2)]
        for server in self.servers:
            self.wait_for({"id": server}, "ACTIVE")
        self.flags(host="compute-a")
        self.flags(shard="a", group="ironic")

    def make_mixed(self, count: int) -> None:
        """Nodes of all states, in the shard."""
        kinds = itertools.product(
            sorted(states.ALL),
            ("power on", "power off", "error", None),
            ({}, {"maintenance": True}, {"protected": True}),
        )
        for number, (state, power, flags) in enumerate(
            itertools.islice(itertools.cycle(kinds), count)
        ):
            instance = OTHERS.format(number) if state in states.DEPLOYED else None
            self.make_nodes(
                1,
                shard="a",
                provision_state=state,
                power_state=power,
                instance_uuid=instance,
                resource_class=("baremetal-gold", "R640 (96G)", "CUSTOM_Y")[number % 3],
                traits=["CUSTOM_SSD", "HW_CPU_X86_VMX"][: number % 3],
                properties={
                    "cpus": str(number),
                    "memory_mb": 1024 * number,
                    "cpu_arch": ("x86_64", "aarch64", None)[number % 3],
                    "capabilities": ("", "boot_mode:uefi", "a:b,c:d")[number % 3],
                },
                **flags,
            )

    def test_of_nodes_in_all_states_no_difference_is_unexplained(self) -> None:
        self.make_mixed(NODES)
        self.fake.requests.clear()
        rows = self.fleet("shadow")
        assert not [row for row in rows if row["Explained By"] is None]
        assert {row["Explained By"] for row in rows} == {
            *(shadow.SIZES, shadow.ANOTHERS_INSTANCE, "cost")
        }
        assert f"This driver: {NODES + 3} nodes, 2 servers" in self.said
        cost = {row["What"]: (row["In-Tree"], row["Ours"]) for row in rows}
        assert all(value > 0 for value in cost["cost: requests"] + cost["cost: seconds of CPU"])
        assert list(self.fake.requests.mutating()) == []

    def test_a_difference_that_nothing_explains_is_told(self) -> None:
        real = shadow.EXPLANATIONS
        self.stub_out(
            "ironic_virt.fleet.shadow.EXPLANATIONS",
            [one for one in real if one[0] != shadow.SIZES],
        )
        rows = self.fleet("shadow", code=FleetExitCode.FOUND)
        assert {row["What"] for row in rows if row["Explained By"] is None} == {"sizes in stats"}

    def test_what_readme_and_the_start_page_say_to_run_before_a_switch(self) -> None:
        start = typed.ROOT / "doc" / "source" / "start" / "nova.rst"
        for page, heading in ((typed.ROOT / "README.rst", "In Nova"), (start, "Look")):
            commands = [shlex.split(line) for line in typed.commands(typed.section(page, heading))]
            verbs = [line[-1] for line in commands if line[0] == "ironic-virt-fleet"]
            assert verbs == ["check", "shadow"]
            for program, *arguments in commands:
                if program == "ironic-virt-fleet":
                    self.fleet(*arguments)

    def test_a_service_that_is_not_there(self) -> None:
        self.fleet("shadow", "--host", "compute-x", code=1)
        assert "no nova-compute on compute-x" in self.said


KEYSTONE, PROVIDER = "http://keystone.test/v3", "http://provider.test/token"
SECRETS = {"client_id": "c", "client_secret": "s", "access_token_endpoint": PROVIDER}
OAUTH2 = {"oauth2_client_id": "c", "oauth2_client_secret": "s"}


@pytest.mark.parametrize(
    "plugin",
    [
        v2.Password("http://keystone.test/v2.0", username="u", password="p"),
        v3.Password(KEYSTONE, user_id="u", password="p"),
        v3.OidcClientCredentials(KEYSTONE, identity_provider="i", protocol="p", **SECRETS),
        v3.OAuth2ClientCredential(
            KEYSTONE, oauth2_endpoint=f"{KEYSTONE}/OS-OAUTH2/token", **OAUTH2
        ),
    ],
    ids=lambda plugin: type(plugin).__name__,
)
def test_a_token_may_be_asked_for_wherever_the_plugin_does_and_nothing_else_sent(
    plugin: Any,
) -> None:
    token = {"X-Subject-Token": "t"}
    with requests_mock.Mocker() as mocker, drivers._only_looking() as traffic:
        mocker.post("http://keystone.test/v2.0/tokens", json=fixture.V2Token(token_id="t"))
        mocker.post(f"{KEYSTONE}/auth/tokens", json=fixture.V3Token(), headers=token)
        mocker.post(PROVIDER, json={"access_token": "a"})
        mocker.post(f"{KEYSTONE}/OS-OAUTH2/token", json={"access_token": "t", "expires_in": 60})
        federated = f"{KEYSTONE}/OS-FEDERATION/identity_providers/i/protocols/p/auth"
        mocker.post(federated, json=fixture.V3Token(), headers=token)
        asked = session.Session(auth=plugin)
        assert asked.get_token() == "t"
        mocker.post("http://ironic.test/v1/nodes")
        for _ in range(2):
            with pytest.raises(drivers.ReadOnly):
                asked.post("http://ironic.test/v1/nodes")
        assert not [one for one in mocker.request_history if "ironic.test" in one.url]
    assert traffic["requests"] == 0
