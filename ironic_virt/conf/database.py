# SPDX-License-Identifier: Apache-2.0

"""``[database]``: where the reference service's records are.

The options are oslo.db's own, those of them that have a meaning here, with an
embedded database as the default.  oslo.db is needed for them (extra
``compute``), so nothing that a driver needs imports this module.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from oslo_config import cfg
from oslo_db import options as oslo_options

from ironic_virt import conf as all_options

GROUP = "database"
DEFAULT_CONNECTION = "sqlite:///$state_path/ironic-virt.sqlite"

_KEPT = (
    "connection",
    "sqlite_synchronous",
    "mysql_sql_mode",
    "mysql_wsrep_sync_wait",
    "connection_recycle_time",
    "max_pool_size",
    "max_overflow",
    "pool_timeout",
)
_CONNECTION_HELP = """
Where the records are, as an SQLAlchemy URL.

The default is an SQLite file, which serves services and commands of one host.
Several hosts need MariaDB, MySQL or PostgreSQL. The first service that is
started makes the tables:

* ``mysql+pymysql://user:password@host/ironic_virt`` (extra ``mysql``)
* ``postgresql+psycopg2://user:password@host/ironic_virt`` (extra ``postgresql``)
"""


def options() -> list[cfg.Opt]:
    """The options of oslo.db that are used; copies, so that other users' defaults stay."""
    by_name = {opt.dest: copy.deepcopy(opt) for opt in oslo_options.database_opts}
    connection = by_name["connection"]
    connection.default = DEFAULT_CONNECTION
    connection.help = _CONNECTION_HELP
    # As many as a service uses at a time when it is busy: each new one is a TLS handshake.
    by_name["max_pool_size"].default = 20
    return [by_name[name] for name in _KEPT if name in by_name]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register ``[database]``; harmless when done twice, and also after reading files."""
    conf.register_opts(options(), group=GROUP)


def check(conf: cfg.ConfigOpts) -> None:
    """Read every option once.

    :raises InvalidConfiguration: naming the first option with a wrong value.
    """
    all_options.read_each(GROUP, conf[GROUP], options())


def load(config_files: Sequence[str], args: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read ini files for programs that use the records and no driver.

    Every option is registered but those of ``[ironic]``.

    :param config_files: paths; a later file overrides an earlier one.
    :raises InvalidConfiguration: a file can't be read, or a value is wrong.
    """
    conf = cfg.ConfigOpts()
    all_options.register_but_ironic(conf)
    register_opts(conf)
    all_options.read(conf, config_files, args)
    all_options.check_but_ironic(conf)
    check(conf)
    return conf


def is_embedded(conf: cfg.ConfigOpts) -> bool:
    """Whether no connection was set, so that the database is our own to look after."""
    location = conf.get_location("connection", GROUP)
    defaults = cfg.Locations.opt_default, cfg.Locations.set_default
    return location is None or location.location in defaults
