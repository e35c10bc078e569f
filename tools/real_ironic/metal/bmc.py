# SPDX-License-Identifier: Apache-2.0

"""The machine's BMC for IPMI, which Ironic's ``ipmitool-socat`` takes for its serial console.

OpenIPMI's simulator over libvirt.  Its end of the serial line stays while the machine's own goes
away each time that it is powered off.
"""

from pathlib import Path

from tools.real_ironic.metal.machine import Machine

_USER, _PASSWORD = "admin", "metal"
_TERMINAL = 10023

_SIMULATOR = """
name "bmc"
set_working_mc 0x20
  startlan 1
    addr {address} 623
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid 0123456789abcdef0123456789abcdef
  endlan
  chassis_control "{chassis} 0x20"
  sol "{line}" 115200 history=4000
  user 2 true "{user}" "{password}" admin 10 none md2 md5 straight
"""

_EMULATED = """
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
sel_enable 0x20 1000 0x0a
mc_enable 0x20
"""

# Called with the BMC's address, get, set or check, and names, with values where they are set.
_CHASSIS = """#!/bin/sh
[ "$2" = get ] || exit 0
shift 2
for name in "$@"; do
    case $name in
    power)
        state=$(virsh --connect '{libvirt}' domstate {name} | head -n 1)
        [ "$state" = running ] && echo power:1 || echo power:0
        ;;
    boot) echo boot:default ;;
    esac
done
"""

_LINE = """#!/bin/sh
while :; do
    socat - UNIX-CONNECT:{line} 2>/dev/null
    sleep 0.3
done
"""


def commands(
    machine: Machine, directory: Path, address: str, libvirt: str
) -> dict[str, list[str]]:
    """What runs it, by name."""
    place = directory / "bmc"
    place.mkdir()
    line = place / "line"
    chassis = _program(place / "chassis", _CHASSIS.format(libvirt=libvirt, name=machine.name))
    forward = _program(place / "forward", _LINE.format(line=machine.line))
    simulator, emulated = place / "lan.conf", place / "emulated"
    simulator.write_text(
        _SIMULATOR.format(
            address=address, chassis=chassis, line=line, user=_USER, password=_PASSWORD
        )
    )
    emulated.write_text(_EMULATED)
    simulate = f"ipmi_sim -c {simulator} -f {emulated} -s {place} -n"
    return {
        "line": ["socat", f"PTY,link={line},rawer,mode=600", f"EXEC:{forward}"],
        "bmc": ["sh", "-c", f"until [ -e {line} ]; do sleep 0.2; done; exec {simulate}"],
    }


def driver_info(address: str) -> dict[str, object]:
    """What Ironic has to know of it."""
    return {
        "ipmi_address": address,
        "ipmi_username": _USER,
        "ipmi_password": _PASSWORD,
        "ipmi_terminal_port": _TERMINAL,
    }


def _program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path
