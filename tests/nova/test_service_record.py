# SPDX-License-Identifier: Apache-2.0

"""What the holder of a lease reads in its record among Nova's services, and writes there."""

from typing import Any
from unittest import mock

import pytest
from nova import context as nova_context
from nova import objects, test
from nova.objects import service as nova_service
from nova.servicegroup.drivers import db
from oslo_messaging._drivers.amqpdriver import AMQPListener, RpcAMQPListener

from ironic_virt.exit_codes import ExitCode
from ironic_virt.nova.service_record import ServiceRecord
from ironic_virt.standby import Lease, Timing
from tests.nova import cases

HOST = "compute1"
GRACE = 60.0


class Process:
    """A nova-compute, as far as reports are concerned."""

    def __init__(self) -> None:
        self.service_ref = objects.Service.get_by_host_and_binary(
            nova_context.get_admin_context(), HOST, "nova-compute"
        )

    def pre_start_hook(self, record: Any) -> str:
        return f"started with {record.host}"

    def report(self) -> None:
        db.DbDriver._report_state(mock.Mock(), self)


class TestServiceRecord(cases.UnderPytest, test.TestCase):
    """Of one host name."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        # Put back after the test.
        self.stub_out(
            "oslo_messaging._drivers.amqpdriver.RpcAMQPListener.__call__", RpcAMQPListener.__call__
        )
        # With the other one, Nova does not refuse ours for its version.
        for host in (HOST, "compute2"):
            objects.Service(
                nova_context.get_admin_context(),
                host=host,
                binary="nova-compute",
                topic="compute",
                report_count=0,
            ).create()
        self.lease = Lease(mock.Mock(), Timing.of("file", 15), clock=lambda: self.now)
        self.record = ServiceRecord(HOST, self.lease, GRACE, clock=lambda: self.now)
        self.ours = Process()

    def test_a_process_without_its_lease_acknowledges_no_message(self) -> None:
        self.lease._leave, self.lease._halt = mock.Mock(), mock.Mock(side_effect=SystemExit)
        self.lease.take(HOST)
        self.record.take_over(self.ours)
        listener, message = mock.Mock(spec=RpcAMQPListener), mock.Mock()
        with mock.patch.object(AMQPListener, "__call__") as receive:
            RpcAMQPListener.__call__(listener, message)
            message.acknowledge.assert_called_once_with()
            receive.assert_called_once_with(message)
            self.now += 60
            message = mock.Mock()
            with pytest.raises(SystemExit):
                RpcAMQPListener.__call__(listener, message)
            assert not message.acknowledge.called
            receive.assert_called_once()
        self.lease._leave.assert_called_once_with(ExitCode.LEASE_LOST)

    def start(self) -> None:
        self.record.take_over(self.ours)
        assert self.ours.pre_start_hook(self.ours.service_ref) == "started with compute1"

    def warnings(self) -> int:
        return str(self.stdlog.logger.output).count("[lease-bypassed]")

    def test_its_own_reports_are_no_news(self) -> None:
        self.start()
        for _ in range(20):
            self.now += 10
            self.ours.report()
        fresh = Process().service_ref
        assert fresh.report_count == self.ours.service_ref.report_count
        assert fresh.last_seen_up is not None
        with mock.patch("nova.db.main.api.service_update", side_effect=OSError):
            self.ours.report()
        fresh.report_count = self.ours.service_ref.report_count
        self.ours.report()
        fresh.save()
        self.ours.report()
        assert (self.lease.foreign_reports, self.warnings()) == (0, 0), "one was written late"

    def test_a_process_without_the_lease_is_seen_until_it_ends(self) -> None:
        other = Process()
        self.start()
        for _ in range(3):
            self.now += 10
            self.ours.report()
            other.report()
        assert self.warnings() == 1
        assert self.lease.foreign_reports == 1, "the first one may be of the former holder"
        later = Process()
        for seconds, count, warnings in ((0, 2, 1), (GRACE - 1, 2, 1), (1, 0, 1), (0, 1, 2)):
            self.now += seconds
            if not seconds:
                later.report()
            self.ours.report()
            assert (self.lease.foreign_reports, self.warnings()) == (count, warnings)

    def test_the_former_holders_last_report_causes_no_warning(self) -> None:
        former = Process()
        self.start()
        self.ours.report()
        former.report()
        self.now += 10
        self.ours.report()
        assert self.warnings() == 0

    def test_a_lease_given_back_leaves_the_reports_to_the_next_one(self) -> None:
        self.start()
        self.ours.report()
        count = Process().service_ref.report_count
        self.lease.hand_over()
        self.ours.report()
        assert Process().service_ref.report_count == count

    def test_a_report_is_sent_although_the_record_can_not_be_read(self) -> None:
        self.start()
        with mock.patch.object(objects.Service, "get_by_id", side_effect=OSError("away")):
            self.ours.report()
        assert Process().service_ref.report_count > 0

    def test_a_takeover_by_an_older_package_records_its_own_version(self) -> None:
        # Read before the wait, in which another process has written a newer one.
        self.lease.was_standby = True
        newer = Process().service_ref
        newer.version = nova_service.SERVICE_VERSION + 7
        newer.save()
        self.start()
        assert Process().service_ref.version == nova_service.SERVICE_VERSION
