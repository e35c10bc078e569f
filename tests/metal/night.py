# SPDX-License-Identifier: Apache-2.0

"""The steps with two machines: one boots by BIOS, the other one by UEFI.

Ironic picks the nodes, from pools; in the last one Nova does.
"""

from tests.metal.nova import nova
from tests.metal.story import SECONDS, Steps, Story, wipe
from tests.metal.story import checksum as ask_with_wrong_checksum
from tools.real_ironic.metal.machine import wait_for

_EPHEMERAL = "sudo mkdir -p /kept && sudo mount LABEL=ephemeral0 /kept"
_NOWHERE = {"name": "/dev/nowhere"}


def enroll(story: Story) -> None:
    """Two nodes are enrolled, each in its own pool."""
    for machine, pool in zip(story.machines, ("metal", "uefi"), strict=True):
        story.lab.enroll(machine, pool)
        story.lab.provision(machine, "provide", "available")
        story.command("flavor", "create", pool, "--resource-class", pool)
    disks = ("--disk", "2", "--ephemeral", "1")
    story.command("flavor", "create", "disks", "--resource-class", "metal", *disks)
    story.start_service()


def uefi(story: Story) -> None:
    """A server boots by UEFI; after it the disk is wiped."""
    machine = story.machines[1]
    story.create("web", machine, *story.raw, flavor="uefi")
    seen = story.inside("hostname; ls -d /sys/firmware/efi", machine).split()
    story.check("booted by UEFI", seen == ["web", "/sys/firmware/efi"], seen)
    story.boot_id(machine)
    wipe(story, machine)


def partition(story: Story) -> None:
    """A rebuild of a partition image keeps the ephemeral disk, and nothing else."""
    web, keep = story.lab.web, f"{_EPHEMERAL} && sudo tee /kept/marker"
    image = (
        *story.image("part.raw"),
        *("--image-property", f"kernel_id={web}/kernel"),
        *("--image-property", f"ramdisk_id={web}/ramdisk"),
    )
    story.create("part", story.machine, *image, flavor="disks")
    marker = story.inside(f"echo precious | ({keep}) && sudo touch /first && sync")
    story.check("marker on the ephemeral disk", marker == "precious", marker)
    story.boot_id()
    story.ask("rebuild", *image, "--preserve-ephemeral", "part")
    story.boot_id()
    seen = story.inside(f"{_EPHEMERAL} && ls /first /kept/marker; cat /kept/marker; true").split()
    story.check("marker kept, root new", seen == ["/kept/marker", "precious"], seen)
    story.ask("delete", "part")
    story.lab.wait_for_state(story.machine, "available")


def fallback(story: Story) -> None:
    """A deployment that fails on one machine goes to the other one."""
    lab, (bad, good) = story.lab, story.machines
    lab.change(good, "resource_class", "metal")
    lab.change(bad, "properties/root_device", _NOWHERE)
    # Only to have it begin with the bad one.
    lab.call("PUT", f"/nodes/{good.name}/maintenance", {})
    mark = good.mark()
    create = ("create", "--flavor", "metal", *story.raw, *story.given(good), "moved")
    story.command("server", *create)
    wait_for(
        "the deployment on the bad machine",
        lambda: lab.call("GET", f"/nodes/{bad.name}")["provision_state"] == "wait call-back",
        SECONDS,
    )
    lab.call("DELETE", f"/nodes/{good.name}/maintenance")
    wait_for("the server", lambda: story.status("moved")["status"] != "BUILD", 2 * SECONDS)
    shown = story.status("moved")
    story.check("the server's status", shown["status"] == "ACTIVE", shown["status"])
    fault = str(shown.get("fault"))
    story.check("why it left the bad machine", "No suitable device" in fault, fault[:200])
    line = good.wait_for_line("METAL-USER-DATA moved", mark, SECONDS)
    story.check("user data on the other machine", line.endswith("it-was-here"), line)
    story.boot_id(good)
    story.ask("delete", "moved")
    lab.change(bad, "properties/root_device", {"name": "/dev/vda"})
    for machine in story.machines:
        lab.wait_for_state(machine, "available")


def checksum(story: Story) -> None:
    """A wrong checksum ends with its reason; the other machine is never switched on."""
    marks = [machine.mark() for machine in story.machines]
    ask_with_wrong_checksum(story)
    idle = [
        machine.name
        for machine, mark in zip(story.machines, marks, strict=True)
        if machine.mark() == mark
    ]
    story.check("the machine that stays off", len(idle) == 1, idle)


STEPS: Steps = {
    step.__name__: step for step in (enroll, uefi, partition, fallback, checksum, nova)
}
