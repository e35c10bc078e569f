# SPDX-License-Identifier: Apache-2.0

"""The real Nova as the caller: our driver and its own, each with a shard and a machine."""

import base64
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.metal.story import PASSWORD, SECONDS, Story
from tests.nova_deployment import figures
from tests.nova_deployment.deployment import RESOURCE_CLASS, Deployment
from tests.nova_deployment.people import IMAGE, Server, User
from tests.nova_deployment.stand_ins import StandInGlance
from tools.real_ironic.metal import ADDRESS, GLANCE, Lab, Machine
from tools.real_ironic.metal.machine import wait_for

_DRIVERS = {"ours": "ironic_virt.IronicDriver", "in-tree": "ironic.IronicDriver"}


class _Running:
    """The lab's Ironic, for a deployment that would start and end one."""

    def __init__(self, lab: Lab) -> None:
        self.url, self.process = lab.ironic_url, lab.ironic.process

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def nova(story: Story) -> None:
    """Nova asks for the same of both drivers, at the same time."""
    lab = story.lab
    story.service.terminate()
    story.service.wait()
    machines = dict(zip(_DRIVERS, story.machines, strict=True))
    for host, machine in machines.items():
        lab.change(machine, "resource_class", RESOURCE_CLASS)
        lab.change(machine, "shard", host)
    directory = lab.directory / "nova"
    directory.mkdir()
    with (
        Deployment(
            directory,
            _Running(lab),
            computes={
                host: {"driver": driver, "shard": host} for host, driver in _DRIVERS.items()
            },
            steps=figures.Steps(),
            progress=lambda line: print(f"    {line}", flush=True),
            glance=StandInGlance(lab.images.directory / "disk.qcow2", GLANCE),
        ) as cloud,
        ThreadPoolExecutor() as pool,
    ):
        cloud.user.create_key("key", lab.key.with_suffix(".pub").read_text())
        lives = [
            pool.submit(_Life(story, cloud.user, host, machine).go_through)
            for host, machine in machines.items()
        ]
        for life in lives:
            life.result()


class _Life:
    """What Nova is asked for a server, and what is seen on its machine.

    :param host: the compute service, and the server's name.
    """

    def __init__(self, story: Story, user: User, host: str, machine: Machine) -> None:
        self._story, self._user, self._host, self._machine = story, user, host, machine

    def go_through(self) -> None:
        """From its creation to its end."""
        story, machine = self._story, self._machine
        mark = machine.mark()
        self._create()
        line = machine.wait_for_line(f"METAL-USER-DATA {self._host}", mark, SECONDS)
        self._check("user data on the serial line", line.endswith("it-was-here"), line)
        network = story.inside("cat /etc/network/interfaces.d/*", machine)
        static = re.search(rf"inet static(\n.*)*address {re.escape(machine.address)}", network)
        self._check("static address", static, static and static[0].split("\n")[-1])
        story.boot_id(machine)
        mark = machine.mark()
        self._ask("ACTIVE", {"reboot": {"type": "SOFT"}})
        line = machine.wait_for_line("reboot: ", mark, SECONDS)
        self._check("the system has shut down", line, line)
        machine.wait_for_line("Linux version", mark, SECONDS)
        story.boot_id(machine)
        story.inside("sudo touch /first && sync", machine)
        self._ask("ACTIVE", {"rebuild": {"imageRef": IMAGE}})
        story.boot_id(machine)
        seen = story.inside("ls /first 2>/dev/null; hostname", machine)
        self._check("a new root file system", seen == self._host, seen)
        # Only now: an agent of a minute ago would be taken for one that still runs.
        story.lab.change(machine, "driver_info/fast_track", True)
        self._ask("RESCUE", {"rescue": {"adminPass": PASSWORD}})
        story.log_in_to_rescue(machine)
        self._ask("ACTIVE", {"unrescue": None})
        story.lab.change(machine, "driver_info/fast_track", False)
        story.boot_id(machine)
        self._user.delete(self._found())
        wait_for("the server's end", lambda: not self._found(), SECONDS)
        story.lab.wait_for_state(machine, "available")
        self._check("off, and free", not machine.is_on)

    def _check(self, what: str, right: object, seen: object = "") -> None:
        self._story.check(f"{self._host}: {what}", right, seen)

    def _create(self) -> None:
        machine = self._machine
        port = self._user.create_port(machine.mac, machine.address, ADDRESS)
        self._uuid = self._user.boot(
            1,
            name=self._host,
            networks=[{"port": port}],
            config_drive=True,
            key_name="key",
            user_data=base64.b64encode(self._story.user_data.read_bytes()).decode(),
            availability_zone=f"nova:{self._host}",
        )
        self._wait_for("ACTIVE")

    def _ask(self, status: str, action: dict[str, Any]) -> None:
        self._user.act(self._uuid, action)
        self._wait_for(status)

    def _wait_for(self, status: str) -> None:
        def idle() -> Server | None:
            return next((server for server in self._found() if server.idle), None)

        server = wait_for(f"{self._host} to be {status}", idle, SECONDS, pause=3)
        self._check("its status", server.status == status, server.fault or server.status)

    def _found(self) -> list[Server]:
        return [server for server in self._user.servers() if server.uuid == self._uuid]
