# SPDX-License-Identifier: Apache-2.0

"""What the commands show and write, with records and no service."""

import csv
import dataclasses
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from ironic_virt import virt
from ironic_virt.cmd import server_create
from ironic_virt.compute.api import Outcome, Requests
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.states import TaskState, VmState
from tests import log_watch
from tests.functional.compute.commands import Commands, Result
from tests.functional.compute.stage import (
    claim,
    deleted,
    ended,
    failed,
    free_node,
    new_uuid,
    offer,
    register,
    report,
)

IMAGE = ("--image", "file:///images/a.raw")
CREATE = ("server", "create", "--flavor", "gold", *IMAGE)
CHECKSUM = "ab" * 32
PASSWORD = log_watch.secret("rescue-password")
USER_DATA = f"#!/bin/sh\necho grüß {log_watch.secret('user-data')}\n"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me@example.test"


@pytest.fixture
def clock() -> None:
    """The records are on the clock of the commands."""


@pytest.fixture
def run(db, tmp_path, capsys, monkeypatch) -> Commands:
    config = tmp_path / "records.conf"
    # However long a test takes, a service that has reported once is up.
    slow = "[DEFAULT]\nservice_down_time = 86400\n"
    config.write_text(config.read_text().replace("[DEFAULT]\n", slow))
    return Commands(config, capsys, monkeypatch)


@pytest.fixture
def nodes(db: Database) -> list[str]:
    """Three free nodes of a service that is up, and a flavor for them."""
    register(db, "one")
    db.flavors.create(virt.Flavor("gold", extra_specs={"resources:CUSTOM_GOLD": "1"}))
    return sorted(free_node(db, "one").uuid for _ in range(3))


def built(db: Database, uuid: str) -> None:
    assert ended(db, uuid, TaskState.SPAWNING, power_state=virt.PowerState.RUNNING)


@pytest.fixture
def web(run: Commands, db: Database, nodes: list[str]) -> str:
    """The uuid of a server of this name, which runs."""
    run.ok(*CREATE, "web")
    uuid = db.instances.get("web").uuid
    built(db, uuid)
    return uuid


# -- flavors ------------------------------------------------------------------


def test_a_flavor_is_created_shown_listed_and_deleted(run: Commands, db: Database) -> None:
    wanted = ("--ram", "1024", "--vcpus", "2", "--disk", "3", "--ephemeral", "4", "--swap", "5")
    class_ = ("--resource-class", "gold.8", "--trait", "CUSTOM_X")
    created = run.json(
        "flavor", "create", "big", *wanted, *class_, "--property", "capabilities:boot_mode=uefi"
    )
    specs = {
        "resources:CUSTOM_GOLD_8": "1",
        "trait:CUSTOM_X": "required",
        "capabilities:boot_mode": "uefi",
    }
    assert db.flavors.get("big") == virt.Flavor("big", 2, 1024, 3, 4, 5, specs)
    sizes = {"ram": 1024, "disk": 3, "ephemeral": 4, "swap": 5, "vcpus": 2}
    assert created == {"name": "big", **sizes, "properties": specs}
    assert run.json("flavor", "show", "big") == created
    run.ok("flavor", "create", "any")
    assert [row["Name"] for row in run.json("flavor", "list")] == ["any", "big"]
    result = run("flavor", "delete", "any", "none", "big")
    assert (result.code, result.err) == (1, "There is no flavor 'none'\n")
    assert run.json("flavor", "list") == [], "each as far as it can be"


# -- nodes --------------------------------------------------------------------


def test_nodes_are_listed_by_what_can_be_had(run: Commands, db: Database) -> None:
    assert run("node", "list").err == "No compute service is up: nodes are as last reported\n"
    register(db, "one")
    free = free_node(db, "one", stats={"boot_mode": "uefi", "cpu_arch": "x86_64"}).uuid
    claimed, instance = free_node(db, "one").uuid, new_uuid()
    assert claim(db, claimed, "one", instance)
    used = free_node(db, "one", in_use=True, available=False).uuid
    broken = free_node(db, "two", available=False, resource_class="silver").uuid
    states = {free: "available", claimed: "claimed", used: "in use", broken: "unavailable"}
    listed = run.json("node", "list")
    assert {row["UUID"]: row["State"] for row in listed} == states
    assert [row["UUID"] for row in listed] == sorted(states)
    for options, found in (
        (("--state", "claimed"), {claimed}),
        (("--host", "two"), {broken}),
        (("--resource-class", "silver"), {broken}),
        (("--limit", "2"), set(sorted(states)[:2])),
        (("--state", "available", "--limit", "3"), {free}),
    ):
        assert {row["UUID"] for row in run.json("node", "list", *options)} == found
    (long,) = run.json("node", "list", "--long", "--state", "claimed")
    assert long["Instance UUID"] == instance
    assert long["Traits"] == ["CUSTOM_A", "CUSTOM_B"]
    shown = run.json("node", "show", free)
    assert (shown["state"], shown["memory_mb"], shown["capabilities"]) == (
        *("available", 16384),
        {"boot_mode": "uefi", "cpu_arch": "x86_64"},
    )


# -- services -----------------------------------------------------------------


def test_a_service_is_listed_changed_and_deleted(run: Commands, db: Database) -> None:
    register(db, "one", conductor_group="", shard_key="rack-1")
    (row,) = run.json("service", "list")
    assert (row["Host"], row["Conductor Group"], row["Shard"]) == ("one", "", "rack-1")
    assert (row["Status"], row["State"]) == ("enabled", "up")
    assert "(default)" in run.ok("service", "list")
    run.ok("service", "set", "one", "--disable", "--disable-reason", "new disks", "--down")
    (row,) = run.json("service", "list", "--long", "--host", "one")
    assert (row["Status"], row["State"], row["Forced Down"]) == ("disabled", "down", True)
    assert row["Disabled Reason"] == "new disks"
    run.ok("service", "set", "one", "--enable", "--up")
    (row,) = run.json("service", "list", "--long")
    assert (row["Status"], row["State"], row["Forced Down"]) == ("enabled", "up", False)
    assert row["Disabled Reason"] is None
    assert run.json("service", "list", "--host", "two") == []
    assert "it is up; stop it first" in run("service", "delete", "one").err
    db.services.update("one", forced_down=True)
    run.ok("service", "delete", "one")
    assert db.services.list() == []


# -- servers ------------------------------------------------------------------


def test_a_server_is_asked_for_with_all_that_belongs_to_it(run, db, nodes, tmp_path) -> None:
    (tmp_path / "user-data").write_text(USER_DATA)
    (tmp_path / "id.pub").write_text(f"{KEY}\n")
    shown = run.json(
        *("server", "create", "web", "--flavor", "gold"),
        *("--image", "https://images.example.test/a.raw", "--image-checksum", CHECKSUM),
        *("--image-format", "raw", "--image-property", "kernel_id=k"),
        *("--image-property", "ramdisk_id=r", "--port", "p1", "--port", "p2"),
        *("--user-data", str(tmp_path / "user-data"), "--key", str(tmp_path / "id.pub")),
        *("--property", "role=web"),
    )
    found = db.instances.get("web")
    assert found.image == virt.ImageMeta(
        "https://images.example.test/a.raw",
        *(CHECKSUM, "raw", {"kernel_id": "k", "ramdisk_id": "r"}),
    )
    assert [port.id for port in found.ports] == ["p1", "p2"]
    assert found.user_data == USER_DATA
    assert (found.key_name, found.public_key) == ("id", KEY)
    assert found.properties == {"role": "web"}
    assert shown["id"] == found.uuid
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("BUILD", "spawning")
    assert shown["OS-EXT-SRV-ATTR:hypervisor_hostname"] in nodes
    assert (shown["ports"], shown["properties"]) == (["p1", "p2"], {"role": "web"})
    assert run.json("server", "show", "web") == shown


def test_several_servers_are_one_list(run, db, nodes, tmp_path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    more = ("--count", "3", "--user-data", str(tmp_path / "binary"))
    rows = run.json(*CREATE, *more, "web")
    assert db.instances.get("web-1").user_data == b"\xff\xfe\x00", "it need not be text"
    assert [row["Name"] for row in rows] == ["web-1", "web-2", "web-3"]
    assert sorted(row["Node"] for row in rows) == nodes
    assert len({one.request_id for one in db.instances.list()}) == 3
    refused = run(*CREATE, "--count", "2", "none", "-c", "Name", "-c", "Status")
    assert (refused.code, refused.out) == (1, "")
    assert "(flavor gold): none of 3 nodes is free" in refused.err
    assert refused.err.count("\n") == 1
    assert len(db.instances.list()) == 3


def test_without_a_node_the_reason_is_one_line(run: Commands, db: Database) -> None:
    db.flavors.create(virt.Flavor("gold"))
    result = run(*CREATE, "--wait", "web", "-f", "json")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("No valid host (flavor gold): ")
    assert "is a compute service running?" in result.err
    assert result.err.count("\n") == 1
    assert run.json("server", "list") == []


def test_servers_are_listed_newest_first_and_by_what_is_asked(run, db, nodes) -> None:
    for name in ("a", "b", "c"):
        run.ok(*CREATE, name)
    built(db, db.instances.get("b").uuid)
    gone = db.instances.get("c")
    run.ok("server", "delete", "c")
    deleted(db, gone.uuid)
    names = {
        (): ["b", "a"],
        ("--name", "a"): ["a"],
        ("--status", "active"): ["b"],
        ("--status", "BUILD", "--limit", "1"): ["a"],
        ("--host", "two"): [],
        ("--node", str(db.instances.get("a").node)): ["a"],
        ("--limit", "1"): ["b"],
        ("--status", "reboot"): [],
    }
    for options, found in names.items():
        assert [row["Name"] for row in run.json("server", "list", *options)] == found, options
    (row,) = run.json("server", "list", "--long", "--name", "b")
    assert (row["Status"], row["Power State"], row["Host"]) == ("ACTIVE", "Running", "one")
    assert "Running" in run.ok("server", "list", "--long")
    assert run("server", "show", gone.uuid).code == 1
    run.ok("server", "reboot", "b")
    assert [row["Name"] for row in run.json("server", "list", "--status", "reboot")] == ["b"]
    assert run.json("server", "list", "--status", "active") == []


def test_every_format_is_there(run: Commands, db: Database, nodes: list[str]) -> None:
    run.ok(*CREATE, "web")
    uuid = db.instances.get("web").uuid
    assert f"| {uuid} | web  | BUILD  |" in run.ok("server", "list")
    (row,) = csv.DictReader(io.StringIO(run.ok("server", "list", "-f", "csv")))
    assert (row["ID"], row["Status"]) == (uuid, "BUILD")
    assert "Name: web\n" in run.ok("server", "list", "-f", "yaml")
    assert run.ok("server", "show", "web", "-f", "value", "-c", "id") == f"{uuid}\n"
    assert 'status="BUILD"' in run.ok("server", "show", "web", "-f", "shell")
    assert "status: BUILD\n" in run.ok("server", "show", "web", "-f", "yaml")


ASKED = (
    ("reboot web", "reboot", TaskState.REBOOTING, VmState.ACTIVE),
    ("reboot --hard web", "hard_reboot", TaskState.REBOOTING_HARD, VmState.ACTIVE),
    ("stop web", "stop", TaskState.POWERING_OFF, VmState.ACTIVE),
    ("stop --hard web", "stop", TaskState.POWERING_OFF, VmState.ACTIVE),
    ("start web", "start", TaskState.POWERING_ON, VmState.STOPPED),
    ("rebuild web", "rebuild", TaskState.REBUILDING, VmState.ACTIVE),
    ("rescue web", "rescue", TaskState.RESCUING, VmState.ACTIVE),
    ("unrescue web", "unrescue", TaskState.UNRESCUING, VmState.RESCUED),
    ("dump create web", "trigger_crash_dump", TaskState.TRIGGERING_CRASH_DUMP, VmState.ACTIVE),
    ("add interface web b", "attach_interface", TaskState.ATTACHING_INTERFACE, VmState.ACTIVE),
    ("remove interface web b", "detach_interface", TaskState.DETACHING_INTERFACE, VmState.ACTIVE),
)


def test_a_request_is_recorded_when_the_command_ends_or_refused(run, db, nodes) -> None:
    run.ok(*CREATE, "web")
    uuid, task = db.instances.get("web").uuid, TaskState.SPAWNING
    for line, verb, _, _ in ASKED:
        refused = run("server", *line.split())
        assert (refused.code, refused.out) == (1, "")
        assert f"it is building, and {verb} needs one that is " in refused.err
    for line, verb, wanted, state in ASKED:
        assert ended(db, uuid, task, vm_state=state), verb
        assert run("server", *line.split()).code == 0, verb
        task = wanted
        server = db.instances.get("web")
        assert (server.task_state, server.arguments.get("hard")) == (
            task,
            "stop --hard" in line or None,
        )
        assert f"it is busy ({task})" in run("server", *line.split()).err
    assert run("server", "delete", "web").code == 0
    assert db.instances.get("web").task_state == TaskState.DELETING, "whatever it is doing"


def test_a_rebuild_is_asked_for_with_its_image(run: Commands, db: Database, web: str) -> None:
    shown = run.json(
        *("server", "rebuild", "web", "--image", "https://images.example.test/b.raw"),
        *("--image-checksum", CHECKSUM, "--image-property", "kernel_id=k"),
        *("--image-property", "ramdisk_id=r", "--preserve-ephemeral"),
    )
    found = db.instances.get(web)
    image = virt.ImageMeta(
        "https://images.example.test/b.raw", CHECKSUM, "raw", {"kernel_id": "k", "ramdisk_id": "r"}
    )
    assert found.arguments == {"image": dataclasses.asdict(image), "preserve_ephemeral": True}
    assert found.image.id == IMAGE[1], "until then"
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("REBUILD", "rebuilding")
    assert [row["Name"] for row in run.json("server", "list", "--status", "rebuild")] == ["web"]
    assert ended(db, web, TaskState.REBUILDING, vm_state=VmState.ACTIVE)
    assert db.instances.get(web).image == image
    run.ok("server", "rebuild", "web")
    assert "image" not in db.instances.get(web).arguments


def test_a_rescue_shows_a_generated_password_once(run, db, web, tmp_path) -> None:
    shown = run.json("server", "rescue", "web")
    assert len(shown["adminPass"]) == 16
    assert shown["adminPass"] == db.instances.get(web).arguments["password"]
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", "rescuing")
    assert "adminPass" not in run.json("server", "show", "web")
    assert ended(db, web, TaskState.RESCUING, vm_state=VmState.RESCUED)
    assert [row["Name"] for row in run.json("server", "list", "--status", "rescue")] == ["web"]
    run.ok("server", "unrescue", "web")
    assert db.instances.get(web).task_state == "unrescuing"
    assert ended(db, web, TaskState.UNRESCUING, vm_state=VmState.ACTIVE)
    log = tmp_path / "log"
    result = run(
        *("-vv", "--debug", "--log-file", str(log), "server", "rescue", "web"),
        *("--password", PASSWORD, "-f", "value", "-c", "adminPass", "-c", "name"),
    )
    assert (result.code, result.out.split()) == (0, ["web", "None"])
    assert db.instances.get(web).arguments["password"] == PASSWORD
    assert PASSWORD not in result.err + log.read_text()


def test_a_rescue_that_is_not_waited_for_tells_its_password(run, db, web, tmp_path) -> None:
    log = tmp_path / "log"
    result = run(
        *("-q", "--log-file", str(log), "server", "rescue", "web", "--wait", "--timeout", "0.01")
    )
    assert (result.code, result.out) == (1, "")
    password = db.instances.get(web).arguments["password"]
    assert password is not None
    first, second = result.err.splitlines()
    assert first == f"The password is {password}"
    assert second.startswith("Not done after 0.01 s: server ")
    assert password not in log.read_text()


def test_a_rescue_that_failed_shows_no_password(run, db, web, monkeypatch) -> None:
    fault = records.Fault("the ramdisk is broken; the server runs its own system")

    def carried_out(
        self: Requests, asked: Sequence[records.Instance], *args: object
    ) -> list[Outcome]:
        assert failed(db, web, TaskState.RESCUING, fault, vm_state=VmState.ACTIVE)
        return [Outcome(db.instances.get(web), fault.message)]

    monkeypatch.setattr(Requests, "wait", lambda self, asked, *_, **__: carried_out(self, asked))
    result = run("server", "rescue", "web", "--wait", "-f", "json")
    assert result.code == 1
    assert f"Server web: {fault.message}\n" in result.err
    assert (result.json["status"], result.json["adminPass"]) == ("ACTIVE", None)


def test_an_interface_is_added_and_removed(run: Commands, db: Database, nodes: list[str]) -> None:
    run.ok(*CREATE, "web", "--port", "a")
    uuid = db.instances.get("web").uuid
    built(db, uuid)
    shown = run.json("server", "add", "interface", "web", "b")
    assert (shown["OS-EXT-STS:task_state"], shown["ports"]) == ("attaching-interface", ["a"])
    assert ended(db, uuid, TaskState.ATTACHING_INTERFACE, vm_state=VmState.ACTIVE)
    assert run.json("server", "show", "web")["ports"] == ["a", "b"]
    for verb, vif, why in (
        ("add", "b", "it has the interface b already"),
        ("remove", "c", "it has no interface c; it has a, b"),
    ):
        refused = Result(1, "", f"Server {uuid}: {why}\n")
        assert run("server", verb, "interface", "web", vif) == refused
    shown = run.json("server", "remove", "interface", "web", "a")
    assert shown["OS-EXT-STS:task_state"] == "detaching-interface"
    assert ended(db, uuid, TaskState.DETACHING_INTERFACE, vm_state=VmState.ACTIVE)
    assert run.json("server", "show", "web")["ports"] == ["b"]


def test_the_reason_of_a_failure_is_shown(run: Commands, db: Database, nodes: list[str]) -> None:
    run.ok(*CREATE, "web")
    uuid = db.instances.get("web").uuid
    fault = records.Fault("Ironic could not write the image", "more")
    assert failed(db, uuid, TaskState.SPAWNING, fault)
    shown = run.json("server", "show", "web")["fault"]
    assert shown["message"] == "Ironic could not write the image"
    assert shown["details"] == "more"
    told = " ".join(run.ok("server", "show", "web").replace("|", " ").split())
    assert "Ironic could not write the image; more (" in told


def test_what_can_be_done_is_done_when_something_else_can_not(run, db, nodes) -> None:
    run.ok(*CREATE, "web")
    result = run("server", "delete", "none", "web", "web")
    assert (result.code, result.err) == (1, "There is no server 'none'\n")
    assert db.instances.get("web").task_state == "deleting"


def test_too_long_a_wait_says_so_and_whether_the_service_is_down(run, db, nodes) -> None:
    soon = ("--wait", "--timeout", "0.01")
    result = run("-q", *CREATE, *soon, "web")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("Not done after 0.01 s: server ")
    assert db.instances.get("web").task_state == "spawning"
    run.ok("service", "set", "one", "--down")
    assert "Compute service one is down: " in run("server", "delete", "web").err
    result = run("server", "delete", "web", *soon)
    assert result.code == 1
    assert "Deleting web ...\n  web: waiting, 0." in result.err
    assert "Compute service one is down: " in result.err


# -- what is the same for all -------------------------------------------------


def test_the_config_file_may_stand_in_either_place(run, nodes, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("IRONIC_VIRT_CONFIG_FILE", str(tmp_path / "missing"))
    file = str(run.config)
    for argv in (("--config-file", file, "node", "list"), ("node", "list", "--config-file", file)):
        assert len(run.json(*argv)) == 3


COMMANDS = sorted(
    point.name.split("_")
    for point in metadata.entry_points(group="ironic_virt.cli")
    if point.value.startswith("ironic_virt.")
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(run: Commands, command: list[str]) -> None:
    out = run.ok(*command, "--help")
    assert out.startswith(f"usage: ironic-virt {' '.join(command)} ")
    assert "\n\n" in out


@pytest.fixture
def embedded(tmp_path: Path) -> Path:
    """A file that puts the records into the user's private database."""
    config = tmp_path / "embedded.conf"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path / 'state'}\n")
    return config


def python(config: Path, code: str) -> Result:
    """Run some Python in its own process, in which commands are given this file."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"],
        capture_output=True,
        text=True,
        env={**os.environ, "IRONIC_VIRT_CONFIG_FILE": str(config)},
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        ("--help", {"sqlalchemy", "oslo_db"}),
        (
            "server list",
            {"openstack", "oslo_concurrency", "sqlalchemy.orm", "ironic_virt.cmd.server_create"},
        ),
    ],
)
def test_a_command_loads_nothing_that_it_does_not_need(embedded, command, heavy) -> None:
    code = (
        f"from ironic_virt.cmd import shell\ntry:\n    code = shell.main({command.split()})\n"
        "except SystemExit as end:\n    code = end.code\n"
        f"print('heavy:', sorted({heavy} & set(sys.modules)))\nsys.exit(code)"
    )
    make = "sys.exit(shell.main(['flavor', 'create', 'a', '--resource-class', 'a']))"
    assert python(embedded, f"from ironic_virt.cmd import shell\n{make}").code == 0
    result = python(embedded, code)
    assert result.code == 0, result.err
    assert result.out.endswith("heavy: []\n")
    assert command != "--help" or "server create" in result.out


@pytest.mark.parametrize("missing", ["sqlalchemy", "oslo_db"])
def test_without_the_extra_a_command_says_what_to_install(embedded: Path, missing: str) -> None:
    code = f"sys.modules[{missing!r}] = None\nfrom ironic_virt.cmd import shell\n"
    result = python(embedded, f"{code}sys.exit(shell.main(['server', 'list']))")
    assert (result.code, result.out) == (1, "")
    assert result.err.count("\n") == 1
    assert "pip install '.[compute]'" in result.err


def test_only_who_writes_makes_the_embedded_database(run, embedded, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("IRONIC_VIRT_CONFIG_FILE", str(embedded))
    file = tmp_path / "state" / "ironic-virt.sqlite"
    refused = run("server", "list")
    assert (refused.code, refused.out) == (2, "")
    assert f"The database sqlite:///{file} has no tables" in refused.err
    assert f"(read: {embedded})" in refused.err
    assert not file.parent.exists()
    made = f"Created a new database: sqlite:///{file}\n"
    for name, told in (("gold", made), ("silver", "")):
        assert run("flavor", "create", name, "--resource-class", name).err == told
    assert len(run.json("flavor", "list")) == 2
    embedded.write_text("[DEFAULT]\nstate_path = /proc/none\n")
    refused = run("flavor", "create", "gold", "--resource-class", "gold")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "state_path: /proc/none can't be made" in refused.err


def test_a_relative_state_path_begins_at_the_file_that_names_it(run, monkeypatch, tmp_path):
    (tmp_path / "etc").mkdir()
    file = tmp_path / "etc" / "a.conf"
    file.write_text("[DEFAULT]\nstate_path = state\n")
    monkeypatch.setenv("IRONIC_VIRT_CONFIG_FILE", str(file))
    assert run("flavor", "create", "gold", "--resource-class", "gold").code == 0
    assert (tmp_path / "etc" / "state" / "ironic-virt.sqlite").exists()


def test_a_create_waits_for_a_node_that_is_being_cleaned(run, db, monkeypatch) -> None:
    register(db, "late")
    db.flavors.create(virt.Flavor("late", extra_specs={"resources:CUSTOM_LATE": "1"}))
    node = report(resource_class="late", available=False, cleaning=True)
    db.compute_nodes.save("late", [node])
    line = ("server", "create", "--flavor", "late", "--image", "file:///a.raw")
    refused = run(*line, "first")
    assert (refused.code, refused.err.count("1 node is being cleaned\n")) == (1, 1)
    now, pauses = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        pauses.append(seconds)
        if len(pauses) == 6:
            free = dataclasses.replace(node, available=True, cleaning=False)
            db.compute_nodes.save("late", [free])

    clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep)
    monkeypatch.setattr(server_create, "time", clock)
    given_up = run(*line, "--wait", "--node-timeout", "3", "second")
    assert (given_up.code, pauses) == (1, [0.25, 0.5, 1.0, 1.25])
    assert given_up.err.count("Waiting for a node: 1 node is being cleaned\n") == 1
    # Nobody builds it: only its request is of interest.
    got = run(*line, "--wait", "--timeout", "0.1", "third")
    assert "Waiting for a node" in got.err
    assert db.instances.get("third").node == node.uuid


# -- pools --------------------------------------------------------------------


def test_pools_are_listed_by_name_with_their_numbers(run: Commands, db: Database) -> None:
    register(db, "one")
    pools = [
        records.NodePool("gold~one", "one", "gold", 5, reserved=1, traits=frozenset({"CUSTOM_X"})),
        records.NodePool("silver~one", "one", "silver", 2, memory_mb=1024),
    ]
    offer(db, "one", *pools)
    gold, silver = run.json("node", "list", "--pools")
    assert gold == {
        "Name": "gold~one",
        "Resource Class": "gold",
        "Total": 5,
        "Used": 0,
        "Reserved": 1,
        "Free": 4,
        "Host": "one",
    }
    assert silver["Name"] == "silver~one"
    (one,) = run.json("node", "list", "--pools", "--resource-class", "gold", "--long")
    assert one["Traits"] == ["CUSTOM_X"]
    assert run.json("node", "list", "--pools", "--host", "two") == []
    assert run.json("node", "list") == []
    assert run("node", "list", "--pools", "--state", "available").code == 2
    missing = run("node", "show", new_uuid())
    assert missing.code == 1
    assert "node list --pools" in missing.err.replace("\n", " ")
