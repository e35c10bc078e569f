# SPDX-License-Identifier: Apache-2.0

"""What the driver is answered from Nova's records."""

import uuid
from typing import Any
from unittest import mock

import oslo_messaging
import pytest
from nova import conf as nova_conf
from nova import context as nova_context
from nova import exception, objects, test
from nova.compute import task_states, vm_states

from ironic_virt.nova.errors import Doing
from ironic_virt.nova.virtapi import NovaVirtAPI
from tests.nova import cases


class TestInstances(cases.UnderPytest, test.TestCase):
    """A server that is there, one that can be restored, one that is gone, and none."""

    def setUp(self) -> None:
        super().setUp()
        self._context = nova_context.get_admin_context()
        self.records = NovaVirtAPI(nova_conf.CONF)
        self.records.host = "compute1"
        self.there = self.instance(vm_states.ACTIVE)
        self.soft_deleted = self.instance(vm_states.SOFT_DELETED)
        self.gone = self.instance(vm_states.DELETED)
        objects.Instance.get_by_uuid(self._context, self.gone).destroy()
        self.all = [self.there, self.soft_deleted, self.gone, str(uuid.uuid4())]

    def instance(self, vm_state: str) -> str:
        instance = objects.Instance(
            self._context,
            uuid=str(uuid.uuid4()),
            host="compute1",
            vm_state=vm_state,
            project_id="p",
            user_id="u",
        )
        instance.create()
        found: str = instance.uuid
        return found

    def test_a_build_goes_on_while_the_records_cannot_be_asked(self) -> None:
        instance = objects.Instance.get_by_uuid(self._context, self.there)
        lost = oslo_messaging.MessagingTimeout("the conductor does not answer")
        with mock.patch.object(objects.Instance, "refresh", side_effect=lost):
            assert self.records.abort_reason(instance) is None
        assert "the conductor does not answer" in self.stdlog.logger.output
        instance.task_state = task_states.DELETING
        instance.save()
        assert self.records.abort_reason(instance) == "the server is being deleted"
        objects.Instance.get_by_uuid(self._context, self.there).destroy()
        assert self.records.abort_reason(instance) == "the server was deleted meanwhile"

    def test_why_something_failed_is_noted_or_told_to_the_log(self) -> None:
        why = exception.ComputeResourcesUnavailable(reason="the switch is down")
        # The server has no action to note it with.
        context = nova_context.RequestContext("u", "p", request_id="req-1")
        instance = objects.Instance.get_by_uuid(context, self.there)
        self.fail_with(why, instance)
        lost = oslo_messaging.MessagingTimeout("the conductor does not answer")
        with mock.patch.object(objects.InstanceActionEvent, "event_start", side_effect=lost):
            self.fail_with(why, instance)
        assert "was not noted: the conductor does not answer" in self.stdlog.logger.output
        objects.InstanceAction.action_start(context, self.there, "create")
        self.fail_with(why, instance)
        action = objects.InstanceAction.get_by_request_id(context, self.there, "req-1")
        (event,) = objects.InstanceActionEventList.get_by_action(context, action.id)
        assert (event.event, event.result) == ("compute_ironic_deploy", "Error")
        assert event.details == why.format_message()

    def test_a_failure_that_nova_itself_shows_is_not_noted(self) -> None:
        context = nova_context.RequestContext("u", "p", request_id="req-2")
        instance = objects.Instance.get_by_uuid(context, self.there)
        objects.InstanceAction.action_start(context, self.there, "create")
        self.fail_with(exception.InstanceUnacceptable(instance_id="", reason=""), instance)
        action = objects.InstanceAction.get_by_request_id(context, self.there, "req-2")
        assert not objects.InstanceActionEventList.get_by_action(context, action.id)

    def fail_with(self, error: Exception, instance: Any) -> None:
        """Fail where failures are noted."""
        with pytest.raises(type(error)) as caught, self.records.noting(Doing.SPAWN, instance):
            raise error
        assert caught.value is error

    def test_what_can_be_restored_exists(self) -> None:
        assert self.records.existing_instances(self.all) == {self.there, self.soft_deleted}

    def test_what_is_in_no_record_of_this_cell_is_not_deleted(self) -> None:
        assert self.records.deleted_instances(self.all) == [self.gone]

    def test_what_can_be_restored_has_its_host(self) -> None:
        held = {self.there: "compute1", self.soft_deleted: "compute1"}
        assert self.records.instance_hosts(self.all) == held
        assert self.records.instance_places().keys() == held.keys()

    def test_what_is_gone_is_known(self) -> None:
        found = self.records.known_instances(self.all)
        assert found.keys() == {self.there, self.soft_deleted, self.gone}


class TestOwners(cases.UnderPytest, test.TestCase):
    """Records of two hosts, and a resource tracker."""

    def setUp(self) -> None:
        super().setUp()
        self.records = NovaVirtAPI(nova_conf.CONF)
        self.records.host = "compute1"
        self.mine = [self.record("compute1") for _ in range(4)]
        self.theirs = [self.record("compute2") for _ in range(3)]
        self.tracked = set(self.mine)
        self.records.tracked = lambda: self.tracked
        self.asked: list[int] = []
        ask = objects.ComputeNodeList.get_all_by_uuids

        def counted(*args):
            self.asked.append(len(args[-1]))
            return ask(*args[-2:])

        self.stub_out("nova.objects.ComputeNodeList.get_all_by_uuids", counted)
        self.stub_out("ironic_virt.nova.virtapi._MOST", 2)

    def record(self, host: str) -> str:
        name = str(uuid.uuid4())
        sizes = dict.fromkeys(
            ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used"), 0
        )
        objects.ComputeNode(
            nova_context.get_admin_context(),
            uuid=name,
            host=host,
            hypervisor_hostname=name,
            hypervisor_type="ironic",
            hypervisor_version=1,
            cpu_info="",
            **sizes,
        ).create()
        return name

    def test_records_are_asked_for_in_messages_of_bounded_length(self) -> None:
        new = str(uuid.uuid4())
        owners = self.records.node_owners([*self.mine, *self.theirs, new])
        assert owners == dict.fromkeys(self.mine, "compute1") | dict.fromkeys(
            self.theirs, "compute2"
        )
        assert self.asked == [2, 2, 2, 2]

    def test_records_that_nova_asked_for_are_not_asked_for_again(self) -> None:
        self.stub_out("ironic_virt.nova.virtapi._FEW", 3)
        owners = self.records.node_owners([*self.mine, *self.theirs])
        assert owners == dict.fromkeys(self.mine, "compute1") | dict.fromkeys(
            self.theirs, "compute2"
        )
        assert self.asked == [2, 1]
        # One is moved, and the tracker asks for this host's records.
        moved, stays = self.mine[:2]
        node = objects.ComputeNode.get_by_uuid(nova_context.get_admin_context(), moved)
        node.host = "compute2"
        node.save()
        assert not self.records.was_moved_away(moved)
        self.tracked.remove(moved)
        self.asked.clear()
        assert self.records.was_moved_away(moved)
        assert not any(map(self.records.was_moved_away, (stays, *self.theirs)))
        assert self.asked == [1]
        assert self.records.node_owners([*self.mine, *self.theirs])[moved] == "compute2"
