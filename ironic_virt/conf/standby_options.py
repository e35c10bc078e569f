# SPDX-License-Identifier: Apache-2.0

"""The options of the group ``[ironic]`` that make processes of one host name take turns."""

from __future__ import annotations

from oslo_config import cfg

TTL = 15
"""Seconds, unless something else is set."""

OPTIONS = [
    cfg.StrOpt(
        "standby_backend_url",
        secret=True,
        help="""
Where the processes of this host name agree on which of them is active, as a
URL of tooz: ``etcd3+http://etcd1:2379,etcd2:2379,etcd3:2379``,
``redis://:password@redis1:6379``, or ``file:///directory`` for several
processes on one host. Unset: there is no standby, and nothing is loaded for
it.

For etcd, name all members. A user and a password may precede them
(``etcd3+https://user:password@etcd1:2379,...``), with special characters
quoted as in any URL. The files for TLS follow:
``?ca_cert=/etc/etcd/ca.pem&cert_cert=/etc/etcd/nova.pem&cert_key=/etc/etcd/nova.key``.

Any number of processes with the same ``[DEFAULT] host`` may then be started.
One is active; the others wait before they do anything, and the first to see
that the active one is gone takes over. A process that can't renew its lease
sends no further change to Ironic and ends with exit code 4; it is to be started
again. All processes must have the same value. Needs the packages of the extra
``standby``.
""",
    ),
    cfg.StrOpt(
        "standby_namespace",
        default="",
        regex="[A-Za-z0-9_.-]*$",
        help="""
Keeps leases apart that are in one backend but of different clouds. Set it, to
the name of the cloud for example, if another cloud that uses the same backend
may have a compute service of the same host name: otherwise only one of the two
is active. All processes of a host name must have the same value; with different
ones, each would be active.
""",
    ),
    cfg.IntOpt(
        "standby_ttl",
        default=TTL,
        min=5,
        help="""
Seconds from the end of the active process until another one may take over. The
active one renews its lease ten times in that time, and ends when it can't do so
for four tenths of it, or nine tenths with a file. The next one gets the lease
after half of that time and waits for the other half, since a request of the
former one may arrive late. So the shorter it is, the shorter is the outage of
the backend that ends the active process. All processes must have the same
value.""",
    ),
]
