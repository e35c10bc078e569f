# SPDX-License-Identifier: Apache-2.0

"""Names and values that Nova has a rule for: the same by ours and by Nova's own functions."""

import inspect
import json
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nova import block_device, objects, utils
from nova.scheduler.filters import extra_specs_ops
from nova.virt.ironic import driver as in_tree
from nova.virt.ironic import patcher

from ironic_virt import virt
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.properties import NodeProperties, parse_properties
from ironic_virt.driver.deploy import instance_info
from ironic_virt.nova import values
from ironic_virt.request import requirements
from ironic_virt.request.spec import placement_class
from tests import depth

objects.register_all()
settings.register_profile(
    "parity",
    max_examples=depth.choose(200, 2000),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
parity = settings.get_profile("parity")
"""For each property: the same examples in each run, however slow the machine is."""

NODE = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
CLASSES = st.one_of(
    st.text(max_size=80),
    st.text("aZ09_ .-()ßéİ日", max_size=80),
    st.text("cCuUsStToOmM_", max_size=12),
    st.sampled_from(["R640 (96G)", "bm--2", "CUSTOM_GOLD", "custom_gold", "straße", "ﬁ"]),
)


@parity
@given(CLASSES)
def test_a_resource_class_has_novas_name_in_placement(name: str) -> None:
    assert placement_class(name) == utils.normalize_rc_name(name)


DEVICES = st.lists(
    st.fixed_dictionaries(
        {
            "mount_device": st.sampled_from(["/dev/sda", "/dev/sdb", "/dev/vda", None]),
            "connection_info": st.uuids().map(
                lambda volume: {"driver_volume_type": "iscsi", "serial": str(volume)}
            ),
        },
        optional={"boot_index": st.sampled_from([0, 0, 1, -1, None])},
    ),
    max_size=4,
)


@parity
@given(DEVICES, st.sampled_from(["/dev/sda", "/dev/vda", None]))
def test_a_server_boots_from_the_volume_that_is_novas_root(devices, root_device_name) -> None:
    info = {"root_device_name": root_device_name, "block_device_mapping": devices}
    root = block_device.get_root_bdm(devices)
    found = values.volumes_of(info)
    booted = [one.volume_id for one in found if one.boot_index == 0]
    assert booted == ([] if root is None else [root["connection_info"]["serial"]])
    # Ironic takes each index once.
    assert sorted(one.boot_index for one in found) == list(
        range(root is None, len(found) + (root is None))
    )
    assert [one.volume_id for one in found] == [
        device["connection_info"]["serial"] for device in devices
    ]
    assert {one.connection_info["driver_volume_type"] for one in found} <= {"iscsi"}
    assert values.volumes_of(None) == []


WORDS = st.sampled_from(["uefi", "bios", "1.10", "1.9", "8", "x", "a,b", ""])
OPERATORS = st.sampled_from([*extra_specs_ops.op_methods, "<or>", "=~", "<nor>"])
REQUIREMENTS = st.one_of(
    WORDS,
    st.builds(" ".join, st.tuples(OPERATORS, WORDS)),
    st.builds(" ".join, st.tuples(st.just("<or>"), WORDS, st.just("<or>"), WORDS)),
    st.builds(" ".join, st.tuples(st.just("<all-in>"), WORDS, WORDS)),
)


@parity
@given(WORDS, REQUIREMENTS)
def test_a_capability_fulfils_what_it_fulfils_by_novas_filter(value, requirement) -> None:
    try:
        expected = extra_specs_ops.match(value, requirement)
    except (IndexError, ValueError):
        # Of what isn't a number, or lacks its operand.
        expected = False
    assert requirements.matches(value, requirement) is expected


EXTRA_SPECS = st.dictionaries(
    st.one_of(
        st.sampled_from(["capabilities:", "trait:", "trait1:", "resources:", "hw:"]).flatmap(
            lambda scope: st.sampled_from(["CUSTOM_A", "boot_mode", "cpu_info:x"]).map(
                lambda name: scope + name
            )
        ),
        st.just("quota"),
    ),
    st.sampled_from(["required", "forbidden", "uefi", "true"]),
    max_size=6,
)
SIZES = st.integers(0, 2**31 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@parity
@given(EXTRA_SPECS, st.lists(SIZES, min_size=6, max_size=6), st.lists(st.just("CUSTOM_I")))
def test_ironic_is_told_what_novas_driver_tells(extra_specs, sizes, traits) -> None:
    names = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")
    flavor = objects.Flavor(
        name="bm", extra_specs=extra_specs, **dict(zip(names, sizes[:5], strict=True))
    )
    instance = objects.Instance(
        uuid=NODE,
        display_name="web",
        host="compute1",
        project_id="p",
        user_id="u",
        flavor=flavor,
    )
    image = objects.ImageMeta(id=NODE, properties=objects.ImageMetaProps(traits_required=traits))
    theirs = patcher.create(mock.Mock(properties={"local_gb": sizes[5]}))
    metadata = mock.MagicMock()
    metadata.owner.configure_mock(projectid="p", userid="u")
    metadata.flavor.name = "bm"
    # Nova 29 has no such parameter.
    takes = inspect.signature(theirs.get_deploy_patch).parameters
    more = [metadata] if "metadata" in takes else []
    patch = theirs.get_deploy_patch(instance, image, flavor, *more)
    expected = {one["path"].removeprefix("/instance_info/"): one["value"] for one in patch}
    node = Node(uuid=NODE, properties=NodeProperties(local_gb=sizes[5]))
    request = virt.DeployRequest(instance, values.image_of(image))
    told = instance_info.make_info(request, node, {})
    if "capabilities" in told:
        told["capabilities"] = json.loads(told["capabilities"])
        expected["capabilities"] = json.loads(expected["capabilities"])
    if "traits" in told:
        expected["traits"] = sorted(set(expected["traits"]))
    assert {name: told.get(name) for name in expected.keys() - OF_THE_SERVICE} == {
        name: expected[name] for name in expected.keys() - OF_THE_SERVICE
    }
    assert told.keys() - expected.keys() <= (set() if more else {"flavor_name", *OWNER})


OWNER = ("project_id", "user_id")
OF_THE_SERVICE = {
    "ephemeral_format",
    "fixed_ips",
    "floating_ips",
    "project_name",
    "user_name",
}
"""What the Nova adapter says, not the driver."""


def _stats(properties: dict[str, Any]) -> dict[str, Any]:
    """What Nova's own driver says of a node to the scheduler."""
    theirs = in_tree.IronicDriver.__new__(in_tree.IronicDriver)
    node = mock.Mock(id=NODE, properties=properties, resource_class="gold")
    return theirs._node_resource(node)["stats"]


def _sizes(properties: dict[str, Any]) -> dict[str, Any]:
    """What it reads in a node's properties."""
    theirs = in_tree.IronicDriver.__new__(in_tree.IronicDriver)
    return theirs._parse_node_properties(mock.Mock(id=NODE, properties=properties))


@parity
@given(
    st.dictionaries(
        st.sampled_from(["cpus", "memory_mb", "local_gb"]),
        st.one_of(st.integers(), st.text(max_size=5), SIZES.map(str), st.none(), FLOATS),
    )
)
def test_a_size_is_what_nova_reads_or_is_named_as_malformed(properties: dict[str, Any]) -> None:
    expected = _sizes(properties)
    found = parse_properties(properties)
    for name in ("cpus", "memory_mb", "local_gb"):
        if not any(f"properties/{name} " in cause for cause in found.malformed):
            assert getattr(found, name) == expected[name]


@parity
@given(
    st.lists(st.tuples(*[st.text("ab:1_. ", max_size=4)] * 2).map(":".join), max_size=4).map(
        ",".join
    )
)
def test_a_capability_is_what_nova_reads_or_is_malformed(text: str) -> None:
    properties = {"capabilities": text}
    found = parse_properties(properties)
    expected = {name: value.strip() for name, value in _stats(properties).items() if value}
    if not found.malformed:
        assert dict(found.capabilities) == expected
    assert dict(found.capabilities).items() <= expected.items()
