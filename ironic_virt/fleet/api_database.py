# SPDX-License-Identifier: Apache-2.0

"""Reads Nova's API database: hosts, aggregates, server groups and flavors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from nova import context as nova_context
from nova import objects
from oslo_config import cfg

from ironic_virt.fleet import nova_conf
from ironic_virt.fleet.deployment import grouped
from ironic_virt.fleet.hosts import Aggregate, Flavor, Group, Hosts


def read(conf: cfg.ConfigOpts, servers: Collection[str]) -> Hosts:
    """Read it all, but only the groups of these servers."""
    admin = nova_context.get_admin_context()
    with nova_conf.asking():
        mappings = objects.HostMappingList.get_all(admin)
        return Hosts(
            {mapping.host: str(mapping.cell_mapping.uuid) for mapping in mappings},
            list(map(_make_aggregate, objects.AggregateList.get_all(admin))),
            {
                member: group
                for group in map(_make_group, objects.InstanceGroupList.get_all(admin))
                if group is not None and group.members & set(servers)
                for member in group.members
            },
            list(_make_flavors(objects.FlavorList.get_all(admin))),
            conf.default_availability_zone,
        )


def _make_aggregate(record: Any) -> Aggregate:
    zone = record.metadata.get("availability_zone")
    return Aggregate(record.name, str(record.uuid), frozenset(record.hosts), zone)


def _make_group(record: Any) -> Group | None:
    """A group with a policy that is enforced."""
    if record.policy not in ("affinity", "anti-affinity"):
        return None
    most = None if record.policy == "affinity" else int(record.rules.get("max_server_per_host", 1))
    return Group(str(record.uuid), frozenset(record.members or ()), most)


def _make_flavors(records: Any) -> Iterator[Flavor]:
    for record in records:
        specs = {name.partition(":")[::2]: value for name, value in record.extra_specs.items()}
        classes = frozenset(
            name
            for (kind, name), amount in specs.items()
            if kind == "resources" and name.startswith("CUSTOM_") and amount != "0"
        )
        traits = grouped((use, name) for (kind, name), use in specs.items() if kind == "trait")
        if classes:
            wishes = (frozenset(traits.get(use, ())) for use in ("required", "forbidden"))
            yield Flavor(record.name, classes, *wishes)
