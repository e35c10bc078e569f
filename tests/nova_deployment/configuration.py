# SPDX-License-Identifier: Apache-2.0

"""The files of the services, for users who need no Keystone.

Pure but for :func:`write`.  The API, the scheduler and the conductor share a file; each
``nova-compute`` has its own, without a database.
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Sections = dict[str, dict[str, Any]]

ADMIN = "admin"
"""The user, the project and the token of everybody."""

_LONG = 600
"""Seconds; longer than anything takes here, also on a busy machine."""

DRIVER = "ironic_virt.IronicDriver"

SHUTDOWN = 8
"""Seconds that a ``nova-compute`` has to end when it is stopped."""

_PIPELINE = re.compile(r"\bauthtoken ")


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoints:
    """Where everything is.

    :ivar broker: as oslo.messaging wants it.
    :ivar databases: URLs by name: ``api``, ``cell0``, ``cell1`` and ``placement``.
    """

    broker: str
    databases: Mapping[str, str]
    ironic: str
    placement: str
    glance: str
    neutron: str


def placement(endpoints: Endpoints) -> Sections:
    """``placement.conf``: any request with the admin's token is the admin's."""
    return {
        "api": {"auth_strategy": "noauth2"},
        "placement_database": {
            "connection": endpoints.databases["placement"],
            "sync_on_startup": True,
        },
    }


def controller(endpoints: Endpoints, directory: Path) -> Sections:
    """``nova.conf`` of the API, the scheduler, the conductor and ``nova-manage``."""
    sections = _nova(endpoints, directory, "controller")
    sections["DEFAULT"]["compute_driver"] = DRIVER
    sections["ironic"] = _ironic(endpoints)
    sections["api_database"] = {"connection": endpoints.databases["api"]}
    sections["database"] = {"connection": endpoints.databases["cell1"]}
    sections["api"] = {"max_limit": 1000}
    sections["quota"] = dict.fromkeys(("instances", "cores", "ram"), -1)
    sections["scheduler"] = {"workers": 1}
    sections["conductor"] = {"workers": 1}
    return sections


def compute(
    endpoints: Endpoints,
    directory: Path,
    host: str,
    driver: str = DRIVER,
    refresh: int = 10,
    **ironic: Any,
) -> Sections:
    """``nova.conf`` of one ``nova-compute``.

    :param refresh: seconds; a node is free for Placement so long after it is clean, at most.
    :param driver: its ``compute_driver``.
    :param ironic: options of ``[ironic]`` of this one alone.
    """
    sections = _nova(endpoints, directory, host)
    sections["DEFAULT"] |= {
        "compute_driver": driver,
        "update_resources_interval": refresh,
        # Fake hardware is off when it has been deployed to: Nova would stop the server.
        "sync_power_state_interval": -1,
        # What was deleted while this service was down; no period begins with a random delay.
        "periodic_fuzzy_delay": 0,
        "running_deleted_instance_poll_interval": 5,
        # When it is stopped it waits for nothing that is under way, and ends soon after.
        "manager_shutdown_timeout": SHUTDOWN - 3,
        "graceful_shutdown_timeout": SHUTDOWN,
    }
    sections["ironic"] = {**_ironic(endpoints), **ironic}
    return sections


def _ironic(endpoints: Endpoints) -> dict[str, Any]:
    return {"auth_type": "none", "endpoint_override": endpoints.ironic, "api_retry_interval": 1}


def _nova(endpoints: Endpoints, directory: Path, host: str) -> Sections:
    return {
        "DEFAULT": {
            "host": host,
            "my_ip": "127.0.0.1",
            "state_path": directory,
            "transport_url": endpoints.broker,
            "report_interval": 1,
            # Nobody is taken for dead for being slow.
            "service_down_time": _LONG,
            "rpc_response_timeout": _LONG,
        },
        "oslo_concurrency": {"lock_path": directory / "locks"},
        "placement": {
            "auth_type": "admin_token",
            "endpoint": endpoints.placement,
            "token": ADMIN,
            "endpoint_override": endpoints.placement,
        },
        "glance": {"endpoint_override": endpoints.glance},
        "neutron": {"auth_type": "none", "endpoint_override": endpoints.neutron},
    }


def paste(installed: str) -> str:
    """``api-paste.ini`` without Keystone: the server in front names the user.

    :param installed: the file that Nova brings.
    """
    return _PIPELINE.sub("", installed)


def write(path: Path, sections: Sections) -> Path:
    """Write a file in oslo.config's format."""
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{name} = {value}" for name, value in values.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path
