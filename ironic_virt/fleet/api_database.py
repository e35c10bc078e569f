# SPDX-License-Identifier: Apache-2.0

"""Reads Nova's API database: hosts, aggregates, server groups and flavors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from nova import context as nova_context
from nova import objects
from oslo_config import cfg
from oslo_db import exception as db_exception

from ironic_virt import exceptions
from ironic_virt.fleet.hosts import Aggregate, Flavor, Group, Hosts

_POLICIES = ("affinity", "anti-affinity")


class ApiDatabaseFailed(exceptions.IronicVirtError):
    """Nova's API database did not answer, or refused."""


def read(conf: cfg.ConfigOpts, servers: Collection[str]) -> Hosts:
    """Read it, and of the groups those of some servers."""
    admin = nova_context.get_admin_context()
    try:
        mappings = objects.HostMappingList.get_all(admin)
        return Hosts(
            {one.host: str(one.cell_mapping.uuid) for one in mappings},
            [
                Aggregate(
                    *(one.name, str(one.uuid), frozenset(one.hosts)),
                    one.metadata.get("availability_zone"),
                )
                for one in objects.AggregateList.get_all(admin)
            ],
            {
                member: group
                for group in map(_group, objects.InstanceGroupList.get_all(admin))
                if group is not None and group.members & set(servers)
                for member in group.members
            },
            list(_flavors(objects.FlavorList.get_all(admin))),
            conf.default_availability_zone,
        )
    except db_exception.DBError as exc:
        raise ApiDatabaseFailed(f"Nova's API database: {exc}") from exc


def _group(found: Any) -> Group | None:
    """A group with a policy that is enforced."""
    if found.policy not in _POLICIES:
        return None
    most = None if found.policy == "affinity" else int(found.rules.get("max_server_per_host", 1))
    return Group(str(found.uuid), frozenset(found.members or ()), most)


def _flavors(listed: Any) -> Iterator[Flavor]:
    for one in listed:
        asked = {name.partition(":")[::2]: value for name, value in one.extra_specs.items()}
        classes = {
            name
            for (kind, name), amount in asked.items()
            if kind == "resources" and name.startswith("CUSTOM_") and amount != "0"
        }
        traits: dict[str, set[str]] = {"required": set(), "forbidden": set()}
        for (kind, name), value in asked.items():
            if kind == "trait" and value in traits:
                traits[value].add(name)
        if classes:
            yield Flavor(one.name, frozenset(classes), *map(frozenset, traits.values()))
