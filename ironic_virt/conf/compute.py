# SPDX-License-Identifier: Apache-2.0

"""``[DEFAULT]`` options that a compute service and its driver share."""

from __future__ import annotations

import socket

from oslo_config import cfg

OPTIONS = [
    cfg.StrOpt(
        "compute_driver",
        default="ironic",
        help="""
The driver that deploys instances.

The name of an entry point in the namespace ``ironic_virt.compute_drivers``.
An unknown name is an error at start that lists the names found.
""",
    ),
    cfg.HostAddressOpt(
        "host",
        default=socket.gethostname(),
        sample_default="<current_hostname>",
        help="""
The name of this compute service.

Must be unique among the compute services and stay the same over restarts:
the records of nodes and instances refer to it. It needs not be resolvable.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the ``[DEFAULT]`` options."""
    conf.register_opts(OPTIONS)
