# SPDX-License-Identifier: Apache-2.0

"""Which nodes a list request means."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, states, versions
from ironic_virt.testing.fake_ironic.records import Node
from ironic_virt.testing.fake_ironic.store import Store
from ironic_virt.testing.fake_ironic.web import Request

Match = Callable[[Node], bool]

FILTERS: dict[str, checks.Parser] = {
    "chassis_uuid": checks.uuid,
    "instance_uuid": checks.uuid,
    "associated": checks.boolean,
    "maintenance": checks.boolean,
    "retired": checks.boolean,
    "provision_state": checks.string,
    "driver": checks.string,
    "resource_class": checks.string,
    "fault": checks.string,
    "conductor_group": checks.string,
    "conductor": checks.string,
    "owner": checks.string,
    "lessee": checks.string,
    "project": checks.string,
    "description_contains": checks.string,
    "shard": checks.string_list,
    "sharded": checks.boolean,
    "include_children": checks.boolean,
    "parent_node": checks.string,
    "instance_name": checks.string,
}

#: Filters that are equality with the field of the same name.
_EQUAL = (
    "chassis_uuid",
    "maintenance",
    "retired",
    "provision_state",
    "driver",
    "resource_class",
    "fault",
    "conductor_group",
    "owner",
    "lessee",
    "instance_name",
)

_FAULTS = ("power failure", "clean failure", "rescue abort failure", "service failure")

UNSORTABLE = frozenset(
    {
        "properties",
        "driver_info",
        "extra",
        "instance_info",
        "driver_internal_info",
        "clean_step",
        "deploy_step",
        "raid_config",
        "target_raid_config",
        "traits",
        "network_data",
        "service_step",
    }
)


def check_filters(request: Request, given: dict[str, Any]) -> None:
    """Refuse filters that the agreed version does not know, and impossible values.

    :raises ApiError: 400 or 406.
    """
    minor = request.minor
    state = given["provision_state"]
    if state is not None:
        if minor < versions.PROVISION_STATE_FILTER:
            raise errors.not_acceptable()
        if state not in states.ALL_STATES:
            raise errors.invalid(f'Provision state "{state}" is not valid')
    for name, since in (
        ("driver", versions.DRIVER_FILTER),
        ("resource_class", versions.RESOURCE_CLASS),
        ("fault", versions.FAULT),
        ("conductor_group", versions.CONDUCTOR_GROUP),
        ("conductor", versions.CONDUCTORS),
        ("owner", versions.OWNER),
        ("lessee", versions.LESSEE),
        ("shard", versions.SHARD),
        ("sharded", versions.SHARD),
    ):
        if given[name] is not None and minor < since:
            raise errors.needs_version(since)
    if given["fault"] is not None and given["fault"] not in _FAULTS:
        raise errors.invalid(
            f'Unrecognized fault "{given["fault"]}" is specified, allowed faults are {_FAULTS}'
        )
    if given["instance_name"] is not None and minor < versions.INSTANCE_NAME:
        raise errors.not_acceptable("instance_name is not acceptable in this API version")
    children = given["include_children"] or given["parent_node"]
    if children and minor < versions.CHILD_NODES:
        raise errors.needs_version(versions.CHILD_NODES)


def _equalities(given: dict[str, Any]) -> Match | None:
    equalities = {name: given[name] for name in _EQUAL if given[name] is not None}
    if "conductor_group" in equalities:
        equalities["conductor_group"] = equalities["conductor_group"].lower()
    if not given["include_children"]:
        equalities["parent_node"] = given["parent_node"]
    if not equalities:
        return None
    values = attrgetter(*equalities)
    expected: Any = tuple(equalities.values())
    if len(expected) == 1:
        expected = expected[0]
    return lambda node: bool(values(node) == expected)


def _contains(description: str | None, text: str) -> bool:
    return description is not None and text.lower() in description.lower()


def matcher(given: dict[str, Any]) -> Match:
    """Whether a node passes the filters, as a function."""
    tests = []
    equal = _equalities(given)
    if equal is not None:
        tests.append(equal)
    associated, sharded, project = given["associated"], given["sharded"], given["project"]
    if associated is not None:
        tests.append(lambda node: (node.instance_uuid is not None) == associated)
    if given["instance_uuid"] is not None:
        instance = given["instance_uuid"]
        tests.append(lambda node: node.instance_uuid == instance)
    if sharded is not None:
        tests.append(lambda node: (node.shard is not None) == sharded)
    if given["shard"] is not None:
        shards = frozenset(given["shard"])
        tests.append(lambda node: node.shard in shards)
    if project is not None:
        tests.append(lambda node: project in (node.owner, node.lessee))
    if given["description_contains"] is not None:
        text = given["description_contains"]
        tests.append(lambda node: _contains(node.description, text))
    if not tests:
        return lambda node: True
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda node: first(node) and second(node)
    return lambda node: all(test(node) for test in tests)


def candidates(store: Store, given: dict[str, Any]) -> Iterable[Node] | None:
    """Nodes found through an index that hold all matches; None where none helps."""
    if given["instance_uuid"] is not None:
        node = store.node_by_instance(given["instance_uuid"])
        return [] if node is None else [node]
    state = given["provision_state"]
    if state is not None and store.count_in_state(state) * 8 < len(store.nodes):
        return store.nodes_in_state(state)
    return None
