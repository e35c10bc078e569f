# SPDX-License-Identifier: Apache-2.0

"""Whether a process reaches its message broker: a real RabbitMQ, and what is in front of one."""

import socket
from collections.abc import Iterator
from typing import Any

import amqp
import oslo_messaging
import pytest
from oslo_config import cfg

from ironic_virt.nova import broker
from tests.nova_deployment.broker import NoBroker
from tests.nova_deployment.broker import broker as started
from tools.real_ironic.ports import free_port


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with started(tmp_path_factory.mktemp("logs")) as url:
            yield url
    except NoBroker as error:
        pytest.skip(str(error))


def conf_of(url: str, **options: Any) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf([])
    oslo_messaging.get_rpc_transport(conf, url)
    conf.set_override("transport_url", url)
    for name, value in options.items():
        conf.set_override(name, value, "oslo_messaging_rabbit")
    return conf


def test_a_broker_is_reached_by_any_of_its_members(rabbitmq: str) -> None:
    broker.log_in(conf_of(rabbitmq))
    user, _, place = rabbitmq.partition("@")
    gone = f"guest:guest@127.0.0.1:{free_port()}"
    broker.log_in(conf_of(f"rabbit://{gone},{user.partition('//')[2]}@{place}"))
    broker.log_in(conf_of(f"rabbit://{place}"))


def test_who_may_not_log_in_does_not_reach_it(rabbitmq: str) -> None:
    with pytest.raises(Exception, match=r"(?i)access.refused"):
        broker.log_in(conf_of(rabbitmq.replace("guest:guest", "guest:wrong")))


def test_a_port_at_which_nobody_logs_one_in_is_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(OSError, match=r"timed out|temporarily unavailable"):
            broker.log_in(conf_of(f"rabbit://guest:guest@127.0.0.1:{port}/"))


def test_a_certificate_that_is_not_trusted_is_no_login(rabbitmq: str) -> None:
    with pytest.raises(Exception, match=r"SSL|reset|closed|EOF"):
        broker.log_in(conf_of(rabbitmq, ssl=True))


def test_the_url_names_the_members_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set()
    monkeypatch.setattr(
        amqp.Connection, "connect", lambda member: asked.add((member.host, member.ssl))
    )
    for url in ("rabbit:///nova", "rabbit://of:nova@one:5671/nova?ssl=1"):
        with pytest.raises(AttributeError, match="sock"):
            broker.log_in(conf_of(url))
    assert asked == {("localhost:5672", False), ("one:5671", True)}
    # A transport that is not RabbitMQ is taken for reached.
    broker.log_in(conf_of("fake://"))
