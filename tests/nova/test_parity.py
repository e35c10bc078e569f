# SPDX-License-Identifier: Apache-2.0

"""Names and values that Nova has a rule for: the same by ours and by Nova's own functions."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nova import block_device, utils

from ironic_virt.nova import values
from ironic_virt.request.spec import placement_class
from tests import depth

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
def test_a_server_boots_from_the_volume_that_nova_takes_for_its_root(
    devices: list[dict[str, Any]], root_device_name: str | None
) -> None:
    info = {"root_device_name": root_device_name, "block_device_mapping": devices}
    root = block_device.get_root_bdm(devices)
    found = values.volumes(info)
    booted = [one.volume_id for one in found if one.boot_index == 0]
    assert booted == ([] if root is None else [root["connection_info"]["serial"]])
    # Ironic takes each index once.
    assert sorted(one.boot_index for one in found) == list(
        range(root is None, len(found) + (root is None))
    )
    assert [one.volume_id for one in found] == [
        device["connection_info"]["serial"] for device in devices
    ]
