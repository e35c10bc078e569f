# SPDX-License-Identifier: Apache-2.0

"""Whether this host can log in to the message broker.

A login says more than a connection, which a load balancer takes also when no broker is left
behind it.
"""

from __future__ import annotations

import ssl
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging._drivers import common
from oslo_utils import netutils

SECONDS = 5.0
"""For each step of a login."""


def log_in(conf: cfg.ConfigOpts) -> None:
    """Log in to the first member that takes it, and out again.

    A transport that is not RabbitMQ is taken for reached.

    :param conf: Nova's, after Nova has begun to use its transport.
    :raises Exception: that of the last member.
    """
    url = oslo_messaging.TransportURL.parse(conf)
    if url.transport not in ("rabbit", "kombu"):
        return
    # It comes with oslo.messaging's driver for RabbitMQ.
    import amqp

    # The URL has options, too.
    options = common.ConfigOptsProxy(conf, url, "oslo_messaging_rabbit").oslo_messaging_rabbit
    errors: list[Exception] = []
    # What the URL leaves out is as oslo.messaging and kombu have it.
    for host in url.hosts or [oslo_messaging.TransportHost()]:
        member = amqp.Connection(
            host=f"{netutils.escape_ipv6(host.hostname or 'localhost')}:{host.port or 5672}",
            userid=host.username or "guest",
            password=host.password or "guest",
            virtual_host=url.virtual_host or "/",
            login_method=options.rabbit_login_method,
            ssl=_tls(options),
            connect_timeout=SECONDS,
            read_timeout=SECONDS,
            write_timeout=SECONDS,
        )
        try:
            member.connect()
            # Under eventlet, only this bounds the wait for the answer to the logout.
            member.transport.sock.settimeout(SECONDS)
            member.close()
            return
        except Exception as exc:
            member.collect()
            errors.append(exc)
    raise errors[-1]


def _tls(options: Any) -> dict[str, Any] | bool:
    """As oslo.messaging has it, but that the name in the certificate is not compared."""
    if not options.ssl:
        return False
    names = {"keyfile": "ssl_key_file", "certfile": "ssl_cert_file", "ca_certs": "ssl_ca_file"}
    tls: dict[str, Any] = {key: options[name] for key, name in names.items() if options[name]}
    return {**tls, "cert_reqs": ssl.CERT_REQUIRED} if options.ssl_ca_file else tls or True
