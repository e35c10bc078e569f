# SPDX-License-Identifier: Apache-2.0

"""Our own options of the group ``[ironic]``.

Names, defaults and meaning are those of Nova's group of the same name, so that
an operator's file works unchanged; the others are additions.
"""

from __future__ import annotations

from oslo_config import cfg, types

from ironic_virt.conf import refresh_options, standby_options

DECISIVE = ("shard", "shard_key", "conductor_group", "partition_key", "peer_list")
"""What says which nodes are a service's."""

OPTIONS = [
    *standby_options.OPTIONS,
    cfg.IntOpt(
        "api_max_retries",
        default=60,
        min=0,
        help="""
How often a request is sent again after a transient failure: the node is locked
(409), 429, 502, 503, 504, or there is no answer. 0: send it once.

No try begins later than ``api_max_retries`` times ``api_retry_interval`` seconds after
the first one. A try that has begun is not cut short: each of its requests may take
``timeout`` seconds (60 if unset).
""",
    ),
    cfg.IntOpt(
        "api_retry_interval",
        default=2,
        min=0,
        help="""
Seconds before a request is sent again for the first time; each further pause is longer,
with jitter. 0 counts as a tenth of a second.

How often nodes are looked at while something waits for them follows from it as well: first
after a quarter of it, later at least every five of these intervals for a deployment, two for
anything else. With seven or more deployments at a time it is three quarters of the interval.
""",
    ),
    cfg.IntOpt(
        "serial_console_state_timeout",
        default=10,
        min=0,
        help="Seconds to wait for a node's serial console to change its state. 0: no limit.",
    ),
    cfg.IntOpt(
        "vnc_console_state_timeout",
        default=60,
        min=0,
        help="""
Seconds to wait for a node's VNC console to change its state. 0: no limit (not
recommended in production).
""",
    ),
    cfg.StrOpt(
        "conductor_group",
        deprecated_name="partition_key",
        mutable=True,
        max_length=255,
        regex=r"^[a-zA-Z0-9_.-]*$",
        help="""
Only nodes of this Ironic conductor group are this service's. Upper and lower
case are the same.

Unset: nodes of every group. The empty string: nodes of the default group,
which is something else than unset.
""",
    ),
    cfg.StrOpt(
        "shard_key",
        deprecated_name="shard",
        max_length=255,
        regex=r"^[a-zA-Z0-9_.-]+$",
        help="""
Only nodes of this Ironic shard are this service's. Upper and lower case are
the same. Unset: nodes of every shard. With a ``conductor_group`` as well, a
node must be in both.

At most one compute service may serve a shard.
""",
    ),
    cfg.ListOpt(
        "peer_list",
        default=[],
        mutable=True,
        deprecated_for_removal=True,
        deprecated_since="0.1.0",
        deprecated_reason="""
Nodes that move between services by themselves have stranded instances and
lost compute node records. Give each service a shard (``shard_key``) instead,
or run one service with passive failover.
""",
        help="""
The host names of all compute services that share the nodes of this conductor
group, this host included. Two or more that are up share the nodes without an
instance by a hash ring; a node with an instance stays with the service that
has the instance. Needs the package tooz, of the extra ``hashring``.

Ignored when ``shard_key`` is set. With a ``conductor_group``, a list that
lacks this host is an error.
""",
    ),
    *refresh_options.OPTIONS,
    cfg.StrOpt(
        "node_selection",
        default="scheduler",
        choices=[
            ("scheduler", "the compute service's scheduler: one compute node for each node"),
            ("ironic", "Ironic, by an allocation: one pool for each kind of nodes"),
        ],
        help="""
Who picks the node that an instance gets.

With ``ironic`` this service reports pools, one for each resource class and set of
traits, and Ironic reserves one of the nodes that fit when an instance is built.
A refresh then costs as much as there are kinds of nodes, and several services may serve
the same nodes. See also ``capacity``, ``match`` and ``allocation_timeout``.

May be changed while there are instances; restart the service.
""",
    ),
    cfg.StrOpt(
        "capacity",
        choices=[
            ("own", "the nodes that only this service serves"),
            ("total", "all nodes, reported by each service"),
        ],
        help="""
What is reported as the capacity of the pools when Ironic picks the node, of the nodes in
this service's conductor group and shard.

``own``: no other service serves them. ``total``: several do, and each reports all of them,
those that others use as reserved. Each free node is then offered several times, and a build
that comes too late is tried elsewhere.

Unset: ``own`` with a ``shard_key``, a ``conductor_group`` or a ``peer_list`` that is
in force, else ``total``.
""",
    ),
    cfg.StrOpt(
        "match",
        default="at_least",
        choices=[
            ("exact", "a node has as much as the flavor asks for, and no more"),
            ("at_least", "a node has as much as the flavor asks for, or more"),
        ],
        help="""
How a node's cores, memory and disk must match the flavor when Ironic picks the
node. A size that the flavor doesn't ask for (``resources:MEMORY_MB=0``) matches
always.
""",
    ),
    cfg.IntOpt(
        "allocation_timeout",
        default=60,
        min=1,
        help="""
Seconds that Ironic has to decide which node an allocation gets. After that the
allocation is given up, and other nodes are asked for.
""",
    ),
    cfg.StrOpt(
        "config_drive_form",
        default="json",
        choices=[
            ("json", "metadata, user data, network data and vendor data; Ironic makes the image"),
            ("iso", "an image that is made on this host"),
        ],
        help="""
How a config drive is sent to Ironic. ``json`` costs this host nothing; the conductor
makes the image when it deploys.

Even with ``json``, an image is sent for what JSON can't carry (injected files, user data
that is not text). No other program is needed to make it.
""",
    ),
    cfg.StrOpt(
        "failure_domain",
        regex=r"^(capabilities|extra)/[^/\s]+$|^traits/CUSTOM_[A-Z0-9_]*$"
        r"|^(conductor_group|shard|chassis_uuid|uuid)$",
        help="""
What names the failure domain of a node, such as its rack, for Nova's server groups; see
``ironic_virt.nova.server_groups``. Unset: they count hosts.

* ``capabilities/NAME``: this capability in the node's ``properties``
* ``extra/NAME``: this entry of the node's ``extra``
* ``traits/CUSTOM_PREFIX_``: the one trait that begins so
* ``conductor_group``, ``shard``, ``chassis_uuid`` or ``uuid``: this field of the node

A node without it gets no member of a group that is strict. Set the same for all compute
services.
""",
    ),
    cfg.ListOpt(
        "hooks",
        default=[],
        help="""
The names of hooks, in the order in which they are called when an instance is deployed or
rebuilt. A hook is your code, which an installed package names in the entry point
namespace ``ironic_virt.hooks``. It may change the network data and the metadata of config
drives, and refuse a deployment before it begins or when it is done.

Only hooks that are named here are called. A name that is not installed, or can't be
loaded, is an error at start.
""",
    ),
    cfg.ListOpt(
        "project_fields",
        item_type=types.String(choices=["lessee"]),
        default=[],
        help="""
``lessee``: the project of an instance is the lessee of its node while it has one.
Ironic's own rules say what a lessee may do with a node. A lessee that is set already
is left alone.

Ironic does the same by itself if its ``[conductor] automatic_lessee`` is true; then
nothing is needed here.
""",
    ),
    cfg.BoolOpt(
        "protect_instances",
        default=True,
        help="""
Whether Ironic is to protect the node of each instance (``protected``) from the moment that
it is active until it is deleted or rebuilt. Ironic then refuses any request to tear down or
rebuild the node, also from an operator, from another driver, or if the request arrives late.
The node's ``protected_reason`` says how to take the protection off. Run ``ironic-virt-fleet
unprotect`` before you go back to Nova's own driver.

Costs one request more for each build, rebuild and delete, and for use after a failed delete.
""",
    ),
    cfg.IntOpt(
        "deploy_timeout",
        default=10800,
        min=0,
        help="""
Seconds that a deployment may take, from the request to the node being active.
After that it counts as failed and the node is torn down. 0: no limit (not
recommended in production).
""",
    ),
    cfg.IntOpt(
        "unprovision_timeout",
        default=900,
        min=0,
        help="""
Seconds that tearing a node down may take, until Ironic has given the instance
up; cleaning, which comes after, does not count. 0: no limit.
""",
    ),
    cfg.IntOpt(
        "power_timeout",
        default=600,
        min=0,
        help="""
Seconds that a change of the power state may take. 0: no limit. A soft power off may
take as long as its system is given to shut down on top.
""",
    ),
    cfg.IntOpt(
        "rescue_timeout",
        default=3600,
        min=0,
        help="""
Seconds that it may take until the rescue system of an instance is there, or its
own system is there again. 0: no limit.
""",
    ),
    cfg.PortOpt(
        "metrics_port",
        default=0,
        help="""
The port on which metrics are offered to Prometheus, under ``/metrics``; 0: none. With
Nova it needs the extra ``metrics``. The reference compute service has ``/healthz``, too.

Each process needs its own port. If it is in use, the reference compute service does not
start; with Nova it is an error in the log, and the service goes on without metrics.
""",
    ),
    cfg.StrOpt(
        "metrics_host",
        default="127.0.0.1",
        help="""
The address on which metrics are offered, if ``metrics_port`` is set. The page
shows names of hosts, shards and resource classes, and no credentials.
""",
    ),
]
