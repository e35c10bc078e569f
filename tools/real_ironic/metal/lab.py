# SPDX-License-Identifier: Apache-2.0

"""The data centre: a bridge, libvirt, BMCs, a DHCP server, a web server and Ironic.

Only for use in :func:`host.namespaces_command`, which ends all of it.
"""

import configparser
import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import requests

from tools.real_ironic.configuration import Options
from tools.real_ironic.environment import IronicEnvironment, Progress, ignore_progress
from tools.real_ironic.metal import bmc, host
from tools.real_ironic.metal.images import Images
from tools.real_ironic.metal.machine import FIRMWARE, Machine, Place, wait_for
from tools.real_ironic.service import RealIronic

ADDRESS = "172.22.0.1"
"""Of everything but the machines."""

GLANCE = 9292
"""The port on 127.0.0.1 at which Ironic looks for Glance."""

_PREFIX = 24
_IRONIC, _REDFISH, _WEB = 6385, 8000, 8081
_PATIENCE = 1800.0
_MACHINES = 2

_QEMU_CONF = """
user = "root"
group = "root"
security_driver = "none"
dynamic_ownership = 0
remember_owner = 0
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
"""

_INTERFACES = {
    "boot": "redfish-virtual-media",
    "deploy": "direct",
    "rescue": "agent",
    "power": "redfish",
    "management": "redfish",
    "console": "ipmitool-socat",
    "storage": "noop",
    **{kind: f"no-{kind}" for kind in ("bios", "firmware", "inspect", "raid", "vendor")},
}

# "main" stands for DEFAULT, which configparser would copy into all the others.  The timeouts are
# for a host that is busy and emulates slowly, but not ramdisk_heartbeat_timeout: part of it passes
# between two steps.  Unpacked, a ramdisk is four times as large, and slower to boot.
_IRONIC_CONF = """
[main]
enabled_hardware_types = redfish
my_ip = {address}
isolinux_bin = /usr/lib/ISOLINUX/isolinux.bin
ldlinux_c32 = /usr/lib/syslinux/modules/bios/ldlinux.c32
[api]
host_ip = 0.0.0.0
ramdisk_heartbeat_timeout = 60
[service_catalog]
auth_type = none
endpoint_override = {url}
[conductor]
deploy_kernel = file://{images}/kernel
deploy_ramdisk = file://{images}/ramdisk
rescue_kernel = file://{images}/kernel
rescue_ramdisk = file://{images}/ramdisk
bootloader = file://{images}/esp.img
file_url_allowed_paths = {images}
disable_zstandard_decompression = true
deploy_callback_timeout = 7200
clean_callback_timeout = 7200
rescue_callback_timeout = 7200
power_state_change_timeout = 600
[deploy]
http_url = {web}
http_root = {web_root}
default_boot_mode = bios
erase_devices_priority = 0
erase_devices_metadata_priority = 10
[agent]
image_download_source = http
enable_bios_bootloader_install = true
deploy_logs_collect = never
command_timeout = 600
[glance]
auth_type = none
endpoint_override = http://127.0.0.1:{glance}
[console]
subprocess_timeout = 900
[redfish]
use_swift = false
kernel_append_params = console=ttyS0
"""


class Lab:
    """A context manager that runs the data centre.

    :ivar web: the URL of what lies in the directory of images.
    :ivar ironic: the Ironic, once all runs.
    """

    def __init__(
        self,
        images: Images,
        environment: IronicEnvironment,
        *,
        progress: Progress = ignore_progress,
    ) -> None:
        self.images = images
        self._environment = environment
        self._progress = progress
        self._stack = contextlib.ExitStack()
        self.web = f"http://{ADDRESS}:{_WEB}"
        self.ironic_url = f"http://{ADDRESS}:{_IRONIC}"

    def __enter__(self) -> Self:
        try:
            name = self._stack.enter_context(
                tempfile.TemporaryDirectory(prefix="ironic-virt-lab-")
            )
            self.directory = Path(name)
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    # -- its parts ------------------------------------------------------------

    def _start(self) -> None:
        self._progress("Starting libvirt, BMCs, DHCP, a web server and Ironic")
        libvirt = self.directory / "libvirt"
        libvirt.mkdir()
        host.prepare(libvirt, f"{ADDRESS}/{_PREFIX}")
        self.key = self.directory / "key"
        host.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))
        web = self.directory / "web"
        web.mkdir()
        for name in ("disk.raw", "disk.qcow2", "part.raw", "SHA256SUMS", "kernel", "ramdisk"):
            (web / name).symlink_to(self.images.directory / name)
        self._libvirtd(libvirt)
        self._dhcp()
        self.run("web", ["python3", "-m", "http.server", str(_WEB), "--directory", str(web)])
        self._redfish()
        self.ironic = self._stack.enter_context(
            RealIronic(
                self._options(web),
                environment=self._environment,
                progress=self._progress,
                start_seconds=1800.0,
            )
        )

    def run(self, name: str, command: list[str], **variables: str) -> subprocess.Popen[bytes]:
        """Start a program, which ends with the lab."""
        with (self.directory / f"{name}.log").open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PATH": host.path(), **variables},
            )
        self._stack.callback(process.terminate)
        return process

    def logs(self) -> Iterator[tuple[str, str]]:
        """What the programs have printed, and the machine on its serial line."""
        yield "ironic", self.ironic.log_tail(400)
        for path in sorted(self.directory.glob("*.log")):
            yield path.stem, path.read_text(errors="replace")

    def _libvirtd(self, directory: Path) -> None:
        Path("/etc/libvirt/qemu.conf").write_text(_QEMU_CONF)
        conf = directory / "libvirtd.conf"
        conf.write_text(
            f'unix_sock_dir = "{directory}"\nauth_unix_rw = "none"\nauth_unix_ro = "none"\n'
        )
        self.run("libvirtd", ["libvirtd", "-f", str(conf), "-p", str(directory / "pid")])
        self.libvirt = f"qemu:///system?socket={directory}/libvirt-sock"
        virsh = ("virsh", "--connect", self.libvirt)

        def pool() -> bool:
            with contextlib.suppress(RuntimeError):
                host.run(*virsh, "pool-define-as", "default", "dir", "--target", str(media))
                return True
            return False

        # Where the emulator puts what is inserted as a CD.
        media = self.directory / "media"
        media.mkdir()
        wait_for("libvirt", pool, _PATIENCE)
        host.run(*virsh, "pool-start", "default")

    def _redfish(self) -> None:
        conf = self.directory / "redfish.conf"
        conf.write_text(
            f"SUSHY_EMULATOR_LISTEN_IP = '{ADDRESS}'\n"
            f"SUSHY_EMULATOR_LISTEN_PORT = {_REDFISH}\n"
            f"SUSHY_EMULATOR_LIBVIRT_URI = '{self.libvirt}'\n"
            "SUSHY_EMULATOR_STORAGE_POOL = 'default'\n"
            f"SUSHY_EMULATOR_BOOT_LOADER_MAP = {{'UEFI': {{'x86_64': '{FIRMWARE}'}}, "
            "'Legacy': {'x86_64': None}}\n"
        )
        command = [str(self.images.emulator), "--config", str(conf)]
        self.run("redfish", command, TMPDIR=str(self.directory))

        def answers() -> bool:
            with contextlib.suppress(OSError):
                socket.create_connection((ADDRESS, _REDFISH), timeout=5).close()
                return True
            return False

        wait_for("the Redfish emulator", answers, _PATIENCE)

    def _dhcp(self) -> None:
        addresses = [f"{_mac(number)},{_address(number)}" for number in range(_MACHINES)]
        self.run(
            "dnsmasq",
            [
                *("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0"),
                *("--interface=br0", "--bind-interfaces", "--user=root", "--log-facility=-"),
                f"--dhcp-range={_address(0)},static,1h",
                *(f"--dhcp-host={pair}" for pair in addresses),
                *(f"--dhcp-option=3,{ADDRESS}", f"--dhcp-leasefile={self.directory}/leases"),
                f"--pid-file={self.directory}/dnsmasq.pid",
            ],
        )

    def machine(self, number: int = 0, *, uefi: bool = False) -> Machine:
        """Make a machine; the first one with a BMC for its serial line."""
        place = Place(f"metal-{number}", _mac(number), _address(number), self.directory, uefi)
        machine = Machine(place, self.libvirt, self.key)
        if not number:
            commands = bmc.commands(machine, self.directory, ADDRESS, self.libvirt)
            for name, command in commands.items():
                self.run(name, command)
        return machine

    def _options(self, web: Path) -> Options:
        conf = configparser.ConfigParser()
        conf.read_string(
            _IRONIC_CONF.format(
                address=ADDRESS,
                url=self.ironic_url,
                glance=GLANCE,
                web=self.web,
                web_root=web,
                images=self.images.directory,
            )
        )
        overrides = {name: dict(conf[name]) for name in conf if conf[name]}
        for kind, name in _INTERFACES.items():
            overrides["main"] |= {
                f"enabled_{kind}_interfaces": name,
                f"default_{kind}_interface": name,
            }
        overrides["DEFAULT"] = overrides.pop("main")
        return Options(vifs=False, port=_IRONIC, own_bmcs=True, overrides=overrides)

    # -- Ironic, by hand ------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Send Ironic a request as an operator; what it answers."""
        answer = requests.request(
            method,
            f"{self.ironic_url}/v1{path}",
            json=body,
            headers={"X-OpenStack-Ironic-API-Version": "latest"},
            timeout=600,
        )
        if not answer.ok:
            raise RuntimeError(f"Ironic answers {method} {path}: {answer.text}")
        return answer.json() if answer.content else None

    def change(self, machine: Machine, path: str, value: Any) -> None:
        """Set a field of the node, ``driver_info/fast_track`` for instance."""
        patch = [{"op": "add", "path": f"/{path}", "value": value}]
        self.call("PATCH", f"/nodes/{machine.name}", patch)

    def enroll(self, machine: Machine, resource_class: str = "metal") -> None:
        """Make the machine a node that Ironic can manage."""
        node = self.call(
            "POST",
            "/nodes",
            {
                "name": machine.name,
                "driver": "redfish",
                "driver_info": {
                    "redfish_address": f"http://{ADDRESS}:{_REDFISH}",
                    "redfish_system_id": f"/redfish/v1/Systems/{machine.uuid}",
                    "redfish_username": "admin",
                    "redfish_password": "unused",
                    **bmc.driver_info(ADDRESS),
                },
                "resource_class": resource_class,
                "automated_clean": False,
                "properties": {
                    "cpus": 1,
                    "memory_mb": 2048,
                    "local_gb": 5,
                    "cpu_arch": "x86_64",
                    "capabilities": f"boot_mode:{'uefi' if machine.uefi else 'bios'}",
                },
            },
        )
        self.call("POST", "/ports", {"node_uuid": node["uuid"], "address": machine.mac})
        self.provision(machine, "manage", "manageable")

    def provision(self, machine: Machine, verb: str, state: str, seconds: float = 7200) -> None:
        """Bring the node to a provision state."""
        self.call("PUT", f"/nodes/{machine.name}/states/provision", {"target": verb})
        self.wait_for_state(machine, state, seconds)

    def wait_for_state(self, machine: Machine, state: str, seconds: float = 7200) -> None:
        """Wait for the node's provision state.

        :raises RuntimeError: it has failed.
        """
        wait_for(f"node {machine.name} in {state!r}", lambda: self.is_in(machine, state), seconds)

    def is_in(self, machine: Machine, state: str) -> bool:
        """Whether the node is in a provision state, and Ironic has no more to do with it.

        :raises RuntimeError: it has failed.
        """
        node = self.call("GET", f"/nodes/{machine.name}")
        at = node["provision_state"]
        if at.endswith("failed") or at == "error":
            raise RuntimeError(f"the node is in {at!r}: {node['last_error']}")
        return bool(at == state and node["reservation"] is None)


def _mac(number: int) -> str:
    return f"52:54:00:aa:00:{number + 1:02x}"


def _address(number: int) -> str:
    return f"172.22.0.{101 + number}"
