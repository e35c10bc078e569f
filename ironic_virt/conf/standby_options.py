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
Where the processes of this host name agree on which of them is active, as a URL of tooz:
``etcd3+http://etcd1:2379,etcd2:2379,etcd3:2379``, ``redis://:password@redis1:6379``, or
``file:///directory`` for several processes on one host. Unset: there is no standby.

For etcd, name all members. A user and a password may precede them
(``etcd3+https://user:password@etcd1:2379,...``), with special characters
quoted as in any URL. The files for TLS follow:
``?ca_cert=/etc/etcd/ca.pem&cert_cert=/etc/etcd/nova.pem&cert_key=/etc/etcd/nova.key``.

Any number of processes with the same ``[DEFAULT] host`` may then be started. One is active;
the others do nothing, and the first to see that the active one is gone takes over. A process
that can't renew its lease sends no further change to Ironic and ends with exit code 4; start
it again. All processes must have the same value. Needs the extra ``standby``.
""",
    ),
    cfg.StrOpt(
        "standby_namespace",
        default="",
        regex="[A-Za-z0-9_.-]*$",
        help="""
Keeps leases of several clouds in one backend apart, for example the name of the cloud. If it
is unset, only one of two services is active that have the same host name in two clouds. All
processes of a service must have the same value: with different ones each would be active.
""",
    ),
    cfg.IntOpt(
        "standby_hand_over_after",
        default=60,
        min=0,
        help="""
Seconds without an answer of Ironic, or without a login to the message broker, after which
the active process gives its lease to one that waits and reaches both, and ends with exit code
4. It has to be active for ten minutes first. Each process looks every ten seconds, so less
than 30 counts as 30. 0: never, and nobody looks.
""",
    ),
    cfg.IntOpt(
        "standby_ttl",
        default=TTL,
        min=5,
        help="""
Seconds from the end of the active process until another one may take over. The active one
renews its lease ten times in that time, and ends when it can't for four tenths of it (nine
tenths with a file): a short value makes a short outage of the backend end it. The next one
gets the lease after half of that time, and waits for the other half, since a late request of
the previous one may still arrive. All processes must have the same value.
""",
    ),
]
