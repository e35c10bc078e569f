# SPDX-License-Identifier: Apache-2.0

"""What oslo-config-generator and the generated reference ask for."""

from __future__ import annotations

from keystoneauth1 import loading
from oslo_config import cfg

from ironic_virt.conf import compute, ironic, ironic_options, scheduler, service


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """All options by group, in the order of the sample file."""
    auth = {
        opt.dest: opt
        for plugin in ("none", "v3password")
        for opt in loading.get_auth_plugin_conf_options(plugin)
    }
    return [
        (None, [*compute.OPTIONS, *service.DEFAULT_OPTIONS]),
        (service.GROUP, service.OPTIONS),
        (
            ironic.GROUP,
            [
                *ironic_options.OPTIONS,
                *loading.get_auth_common_conf_options(),
                *auth.values(),
                *loading.get_session_conf_options(),
                *ironic.adapter_options(),
            ],
        ),
        (scheduler.GROUP, scheduler.OPTIONS),
        *_database(),
    ]


def _database() -> list[tuple[str | None, list[cfg.Opt]]]:
    try:
        from ironic_virt.conf import database
    except ImportError:  # no oslo.db: only a driver is installed
        return []
    return [(database.GROUP, database.options())]
