# SPDX-License-Identifier: Apache-2.0

"""The ``[ironic]`` options.

Names, defaults and meaning are those of Nova's group of the same name, so that
an operator's file works unchanged; what is ours is added beside them.
keystoneauth1 brings the options of authentication, session and adapter.
"""

from __future__ import annotations

from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import loading
from keystoneauth1 import plugin as ksa_plugin
from oslo_config import cfg

from ironic_virt import exceptions

GROUP = "ironic"
SERVICE_TYPE = "baremetal"

# Which API version to speak is negotiated, never configured.
_VERSION_OPTIONS = frozenset({"min_version", "max_version", "default_microversion"})

OPTIONS = [
    cfg.IntOpt(
        "api_max_retries",
        default=60,
        min=0,
        help="""
How often a request is sent again after an answer that may pass: the node is
locked (409), 429, 502, 503, 504, or no answer at all. 0: send it once.

Together with ``api_retry_interval`` this also bounds the time: no request is
tried for longer than ``api_max_retries`` times ``api_retry_interval`` seconds.

Related options:

* api_retry_interval
""",
    ),
    cfg.IntOpt(
        "api_retry_interval",
        default=2,
        min=0,
        help="""
Seconds before a request is sent again for the first time, growing with each
further try, with jitter. It is also the longest time between two looks at the
nodes that something waits for.

Related options:

* api_max_retries
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
Only nodes of this Ironic shard are this service's. Unset: nodes of every
shard. With a ``conductor_group`` as well, a node must be in both.

At most one compute service may serve a shard. When a shard is set,
``peer_list`` is ignored.
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
has the instance. Needs the package tooz: pip install 'ironic-virt[hashring]'.

Ignored when ``shard_key`` is set. With a ``conductor_group``, a list that
lacks this host is an error.
""",
    ),
    cfg.IntOpt(
        "inventory_refresh_interval",
        default=0,
        min=0,
        help="""
Seconds for which the list of nodes counts as up to date: when a refresh is
asked for sooner, nothing is sent to Ironic. 0: each refresh asks Ironic.

What a refresh asks, and what it costs, depends on the other two options.

Related options:

* inventory_full_resync_period
* inventory_sweep_interval
""",
    ),
    cfg.IntOpt(
        "inventory_full_resync_period",
        default=600,
        min=0,
        help="""
Seconds after which a refresh lists all nodes anew. In between, a refresh reads
only the nodes that were changed or created since the last one. 0: every
refresh lists all nodes.

The clocks of the conductors should agree within 20 seconds; what a clock that
is further off hides is seen with the next full list.

Related options:

* inventory_sweep_interval
""",
    ),
    cfg.IntOpt(
        "inventory_sweep_interval",
        default=300,
        min=0,
        help="""
Seconds after which a refresh also lists the uuids of all nodes, with little
more, to find those that were deleted, or that left the conductor group or
shard. Until then such a node still counts as this service's, but nothing is
done to it: before any action it is read anew. 0: at every refresh, as is always done with
a ``peer_list``.

Related options:

* inventory_full_resync_period
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
        help="Seconds that a change of the power state may take. 0: no limit.",
    ),
]


def adapter_options() -> list[cfg.Opt]:
    """keystoneauth1's adapter options, with the bare metal service's defaults."""
    opts = [
        opt
        for opt in loading.get_adapter_conf_options(include_deprecated=False)
        if opt.dest not in _VERSION_OPTIONS
    ]
    cfg.set_defaults(opts, valid_interfaces=["internal", "public"], service_type=SERVICE_TYPE)
    return opts


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register ``[ironic]``: ours, and keystoneauth1's.

    The options of the chosen ``auth_type`` are registered when it is read
    (:func:`check_auth`, or the client), since only then is it known.
    """
    conf.register_group(cfg.OptGroup(GROUP, title="The bare metal service (Ironic)"))
    conf.register_opts(OPTIONS, group=GROUP)
    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    conf.register_opts(adapter_options(), group=GROUP)
    # Readers of adapter options expect these to exist; no file can set them.
    conf.register_opts(
        [cfg.StrOpt(name, sample_default="<negotiated>") for name in _VERSION_OPTIONS],
        group=GROUP,
    )


def all_options(conf: cfg.ConfigOpts) -> list[cfg.Opt]:
    """Every option of the group that can be read before authentication is known."""
    return [
        *OPTIONS,
        *loading.get_session_conf_options(),
        *loading.get_auth_common_conf_options(),
        *adapter_options(),
    ]


def check_auth(conf: cfg.ConfigOpts) -> None:
    """See that the authentication plugin exists and that its options parse.

    :raises InvalidConfiguration: an unknown ``auth_type``, a missing or
        unreadable option of it.
    """
    # Only now is it known whether the plugin's options have a section of their own.
    loading.register_auth_conf_options(conf, GROUP)
    if conf[GROUP].auth_type is None and conf[GROUP].auth_section is None:
        raise exceptions.InvalidConfiguration(
            f"[{GROUP}] auth_type",
            "is not set. Use 'none' (with endpoint_override) for an Ironic without "
            "authentication, 'http_basic', or 'password' for Keystone",
        )
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
    except ksa_exceptions.NoMatchingPlugin as exc:
        raise exceptions.InvalidConfiguration(f"[{GROUP}] auth_type", str(exc)) from exc
    except ksa_exceptions.MissingRequiredOptions as exc:
        names = ", ".join(opt.dest for opt in exc.options)
        raise exceptions.InvalidConfiguration(f"[{GROUP}] {names}", str(exc)) from exc
    except ksa_exceptions.OptionError as exc:
        raise exceptions.InvalidConfiguration(f"[{GROUP}] auth_type", str(exc)) from exc
    except ValueError as exc:
        raise exceptions.InvalidConfiguration(f"[{GROUP}]", str(exc)) from exc
    if auth is None:
        raise exceptions.InvalidConfiguration(
            f"[{GROUP}] auth_section",
            f"names the section [{conf[GROUP].auth_section}], which sets no auth_type",
        )
    # Without Keystone there is no catalog to look the URL up in.
    standalone = isinstance(auth, ksa_plugin.FixedEndpointPlugin) and not auth.endpoint
    if standalone and not conf[GROUP].endpoint_override:
        raise exceptions.InvalidConfiguration(
            f"[{GROUP}] endpoint_override",
            "is needed without Keystone: the URL of Ironic, such as http://localhost:6385",
        )
