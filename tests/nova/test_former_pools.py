# SPDX-License-Identifier: Apache-2.0

"""Renaming the records of pools that have a name from before Ironic could take it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import requests
from keystoneauth1 import exceptions as ks_exc
from nova import context as nova_context
from nova import objects, test
from nova.compute import vm_states

from ironic_virt.driver.pools import names
from ironic_virt.nova import former_pools
from tests.nova import cases

FORMER = ("gold@compute1", "gold+bafa70dd4b@compute1")
NAMES = ("gold~compute1", "gold~bafa70dd4b~compute1")


class CutOffError(Exception):
    """The process ends here."""


class TestFormerPools(cases.UnderPytest, test.TestCase):
    """Two pools with two servers each, and records of others."""

    def setUp(self) -> None:
        super().setUp()
        self._context = nova_context.get_admin_context()
        self.providers: dict[str, str] = {}
        self.compute_ids: dict[tuple[str, str], int] = {}
        self.answer = 200
        self.stub_out("nova.scheduler.client.report.SchedulerReportClient.put", self.put)
        self.ours = [self.record(name, derived=True) for name in FORMER]
        self.servers = {self.server(name) for name in FORMER * 2}
        for name, host, derived in self.strangers():
            self.record(name, host, derived=derived)
        self.server(FORMER[0], "compute2")
        self.begun = self.seen()

    def strangers(self) -> Iterator[tuple[str, str, bool]]:
        """Name, host, and whether its uuid is made from the name."""
        yield "gold@compute10", "compute10", True
        yield "gold@xcompute1", "xcompute1", True
        yield "gold@compute1", "compute2", False
        yield "silver@compute1", "compute2", True
        yield "silver@compute1", "compute1", False
        yield str(uuid.uuid4()), "compute1", False

    def put(self, client: Any, url: str, data: Any, **kwargs: Any) -> Any:
        """Placement's part."""
        answer = requests.Response()
        answer.status_code = self.answer
        answer._content = b"no"
        if self.answer == 200:
            self.providers[url.removeprefix("/resource_providers/")] = data["name"]
        return answer

    def record(self, name: str, host: str = "compute1", *, derived: bool) -> str:
        sizes = dict.fromkeys(
            ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used"), 0
        )
        made = uuid.uuid5(names._NAMESPACE, name) if derived else uuid.uuid4()
        record = objects.ComputeNode(
            self._context,
            uuid=str(made),
            host=host,
            hypervisor_hostname=name,
            hypervisor_type="ironic",
            hypervisor_version=1,
            cpu_info="",
            **sizes,
        )
        record.create()
        self.providers[record.uuid] = name
        self.compute_ids[name, host] = record.id
        found: str = record.uuid
        return found

    def server(self, node: str, host: str = "compute1") -> str:
        instance = objects.Instance(
            self._context,
            uuid=str(uuid.uuid4()),
            host=host,
            node=node,
            compute_id=self.compute_ids[node, host],
            vm_state=vm_states.ACTIVE,
            project_id="p",
            user_id="u",
        )
        instance.create()
        found: str = instance.uuid
        return found

    def seen(self) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """Names of records and of providers, and the servers' nodes."""
        records = objects.ComputeNodeList.get_all(self._context)
        servers = objects.InstanceList.get_all(self._context)
        assert None not in {one.compute_id for one in servers}
        return (
            {one.uuid: one.hypervisor_hostname for one in records},
            dict(self.providers),
            {one.uuid: one.node for one in servers},
        )

    def done(self) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """The same, as it is to be."""
        new = dict(zip(FORMER, NAMES, strict=True))
        records, providers, servers = self.begun
        return (
            {one: new[name] if one in self.ours else name for one, name in records.items()},
            {one: new[name] if one in self.ours else name for one, name in providers.items()},
            {one: new[name] if one in self.servers else name for one, name in servers.items()},
        )

    def test_all_that_is_this_hosts_is_renamed_once(self) -> None:
        former_pools.rename("compute1")
        assert self.seen() == self.done()
        lines = [one for one in self.stdlog.logger.output.splitlines() if "Renamed" in one]
        assert len(lines) == 1
        assert "2 pools, with 4 servers" in lines[0]
        assert "gold+bafa70dd4b@compute1 is now gold~bafa70dd4b~compute1" in lines[0]
        with mock.patch.object(former_pools, "_rename_provider") as again:
            former_pools.rename("compute1")
        assert not again.called
        assert self.seen() == self.done()

    def cut_off(self, where: Any, name: str, number: int, *, after: bool) -> None:
        """Let the process end at a call, before or after it has had an effect."""
        original, calls = getattr(where, name), []

        def called(*args: Any, **kwargs: Any) -> None:
            calls.append(args)
            if len(calls) < number or after:
                original(*args, **kwargs)
            if len(calls) == number:
                raise CutOffError

        with mock.patch.object(where, name, called), pytest.raises(CutOffError):
            former_pools.rename("compute1")

    def test_it_goes_on_where_it_was_cut_off(self) -> None:
        steps = [
            *((former_pools, "_rename_provider", number) for number in (1, 2)),
            *((objects.Instance, "save", number) for number in (1, 2, 3, 4)),
            *((objects.ComputeNode, "save", number) for number in (1, 2)),
        ]
        for where, name, number in steps:
            for after in (False, True):
                self.cut_off(where, name, number, after=after)
                former_pools.rename("compute1")
                assert self.seen() == self.done(), (name, number, after)
                self.undo()

    def undo(self) -> None:
        """Give all the names that they had."""
        records, self.providers, servers = (dict(each) for each in self.begun)
        for one in objects.ComputeNodeList.get_all(self._context):
            one.hypervisor_hostname = records[one.uuid]
            one.save()
        for one in objects.InstanceList.get_all(self._context):
            if one.node != servers[one.uuid]:
                ident, one.compute_id = one.compute_id, None
                one.node, one.compute_id = servers[one.uuid], ident
                one.save()

    def test_a_provider_that_was_never_made_is_no_trouble(self) -> None:
        self.answer = 404
        former_pools.rename("compute1")
        records, _, servers = self.done()
        assert self.seen() == (records, self.providers, servers)

    def test_without_placement_the_service_does_not_start(self) -> None:
        self.answer = 409
        refused = "gold.* can't be renamed to gold~.*: Placement answered 409: no"
        with pytest.raises(former_pools.NotRenamed, match=refused):
            former_pools.rename("compute1")
        put = "nova.scheduler.client.report.SchedulerReportClient.put"
        with (
            mock.patch(put, side_effect=ks_exc.ConnectFailure("nobody there")),
            pytest.raises(former_pools.NotRenamed, match="Placement: nobody there"),
        ):
            former_pools.rename("compute1")
        assert self.seen() == self.begun
