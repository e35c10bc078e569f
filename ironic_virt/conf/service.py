# SPDX-License-Identifier: Apache-2.0

"""Options of the reference compute service: ``[DEFAULT]`` and ``[compute]``.

Those in ``[DEFAULT]`` are shared with the commands, which read the same
records.  Intervals are read again at each round, so a new value holds after
SIGHUP; the numbers of threads hold until a restart.
"""

from __future__ import annotations

import os
from pathlib import Path

from oslo_config import cfg

from ironic_virt import exceptions

GROUP = "compute"


def default_state_path() -> str:
    """Where state is kept unless an operator says otherwise.

    systemd's ``STATE_DIRECTORY`` if it is set, else root's place, or the user's own.
    """
    if given := os.environ.get("STATE_DIRECTORY"):
        # There may be several.
        return given.partition(":")[0]
    if os.geteuid() == 0:
        return "/var/lib/ironic-virt"
    home = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return os.path.join(home, "ironic-virt")


DEFAULT_OPTIONS = [
    cfg.StrOpt(
        "state_path",
        default=default_state_path(),
        sample_default="/var/lib/ironic-virt",
        help="""
The directory for the compute service's files, such as the embedded database; made if it
doesn't exist. The default is the directory that systemd makes for a unit with
``StateDirectory``, or for users other than root ``~/.local/state/ironic-virt``.
""",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        min=1,
        mutable=True,
        help="""
Seconds between two reports of a compute service that it is up; well below
``service_down_time``.
""",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        min=1,
        mutable=True,
        help="""
Seconds after its last report until a compute service counts as down and gets no new
instances. All services and commands that share a database must have the same value.
""",
    ),
    cfg.IntOpt(
        "graceful_shutdown_timeout",
        default=60,
        min=0,
        mutable=True,
        help="""
How many seconds a compute service that is stopped waits for tasks in the middle of a
request; 0: a few seconds. Tasks that wait for Ironic end at once: Ironic continues, and the
service resumes them when it is started again.
""",
    ),
]

OPTIONS = [
    cfg.FloatOpt(
        "task_interval",
        default=1.0,
        min=0.05,
        mutable=True,
        help="Seconds between two looks at what is wanted of this service's instances.",
    ),
    cfg.IntOpt(
        "resource_refresh_interval",
        default=60,
        min=1,
        mutable=True,
        help="""
Seconds between two refreshes of the records of this service's nodes. A node that is new or
free again can be used after the next one; SIGHUP starts one at once.
""",
    ),
    cfg.IntOpt(
        "power_sync_interval",
        default=600,
        min=0,
        mutable=True,
        help="""
Seconds between two comparisons of the instances' records with the power states
in Ironic. 0: only when the service starts.
""",
    ),
    cfg.IntOpt(
        "shutdown_timeout",
        default=60,
        min=0,
        mutable=True,
        help="""
Seconds that a server's system has to shut down when the server is stopped, before the
power is cut. 0: it is cut at once.

``server stop --hard`` cuts it in any case. Deleting a server never waits.
""",
    ),
    cfg.IntOpt(
        "max_concurrent_tasks",
        default=20,
        min=1,
        help="""
How many tasks of this service, such as builds and deletes, work at a time; others wait for
their turn. A task that waits for Ironic does not count; up to 1000 may.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of the compute service."""
    conf.register_opts(DEFAULT_OPTIONS)
    conf.register_opts(OPTIONS, group=GROUP)


def check(conf: cfg.ConfigOpts) -> None:
    """See that the values go together.

    :raises InvalidConfiguration: a service would count as down between two reports.
    """
    if conf.report_interval >= conf.service_down_time:
        raise exceptions.InvalidConfiguration(
            "[DEFAULT] report_interval",
            f"{conf.report_interval} s is not below service_down_time, which is "
            f"{conf.service_down_time} s: the service would count as down between two reports",
        )
