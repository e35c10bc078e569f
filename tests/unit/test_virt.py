# SPDX-License-Identifier: Apache-2.0

"""The values that pass between a service and the driver."""

from ironic_virt import virt


def test_secrets_are_not_in_anybody_s_repr() -> None:
    drive = virt.ConfigDrive(
        meta_data={"admin_pass": "hunter2"},
        user_data="hunter2",
        network_data={"key": "hunter2"},
        vendor_data={"key": "hunter2"},
    )
    volume = virt.BlockDevice("volume", 0, {"data": {"auth_password": "hunter2"}})
    assert "hunter2" not in repr([drive, volume])


def test_power_states_have_nova_s_numbers() -> None:
    assert {state.name: int(state) for state in virt.PowerState} == {
        "NOSTATE": 0,
        "RUNNING": 1,
        "PAUSED": 3,
        "SHUTDOWN": 4,
        "CRASHED": 6,
        "SUSPENDED": 7,
    }
