# SPDX-License-Identifier: Apache-2.0

"""Everything secret passes through a driver; that no log has it, the end of the run shows."""

import base64
import contextlib
import gzip
import itertools
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.testing.fake_ironic import Durations, FakeIronic, FakeIronicServer
from tests import depth, log_watch
from tests.compute_service import IMAGE, Service
from tests.config_drives import sent_drives

ADMIN_PASSWORD = log_watch.secret("admin-password")
FILE = log_watch.secret("file").encode()
RESCUE_PASSWORD = log_watch.secret("rescue-password")
TOKEN = log_watch.secret("token")
USER_DATA = f"#!/bin/sh\necho {log_watch.secret('user-data')}\n"
VOLUME_PASSWORD = log_watch.secret("volume-password")

VOLUME = virt.BlockDevice(
    "volume-1",
    1,
    {
        "driver_volume_type": "iscsi",
        "data": {
            "target_iqn": "iqn.2026-01.test:volume-1",
            "target_lun": 1,
            "auth_method": "CHAP",
            "auth_username": "user",
            "auth_password": VOLUME_PASSWORD,
        },
    },
)


class SecretiveService(Service):
    """A service whose instances have config drives."""

    form: str

    def config_drive(self, request: virt.DeployRequest) -> virt.ConfigDrive:
        files = [
            {"path": path, "content": base64.b64encode(content).decode()}
            for path, content in request.injected_files
        ]
        meta = {
            "uuid": request.instance.uuid,
            "admin_pass": request.admin_password,
            "files": files,
        }
        if self.form == "json":
            vendor_data = {"a": USER_DATA}
            return virt.ConfigDrive(meta_data=meta, user_data=USER_DATA, vendor_data=vendor_data)
        image = f"{meta} {USER_DATA}".encode()
        return virt.ConfigDrive(no_json="it is an image", make_image=lambda drive: image)


@pytest.fixture
def ironic() -> Iterator[FakeIronicServer]:
    """A fake Ironic that wants a token, in real time."""
    with FakeIronicServer(durations=Durations(deploy=0.1), token=TOKEN) as running:
        yield running


@pytest.fixture(params=["json", "iso"])
def form(request: pytest.FixtureRequest) -> str:
    """The form of the config drives."""
    return str(request.param)


@pytest.fixture
def service(tmp_path: Path, ironic: FakeIronicServer, form: str) -> Iterator[Service]:
    config = tmp_path / "secretive.conf"
    lines = ["[DEFAULT]", "host = compute1", "debug = true", "[ironic]"]
    lines += ["auth_type = admin_token", f"token = {TOKEN}", f"endpoint = {ironic.url}"]
    lines += [f"endpoint_override = {ironic.url}", "api_retry_interval = 1", "api_max_retries = 2"]
    config.write_text("\n".join(lines) + "\n")
    running = SecretiveService(config)
    running.form = form
    yield running
    running.driver.cleanup_host()


@pytest.fixture
def node(ironic: FakeIronicServer) -> str:
    """A node with a screen, storage and a port."""
    return ironic.fake.add_node(
        ports=1,
        resource_class="gold",
        storage_interface="external",
        console_interface="fake-graphical",
        driver_info={"ipmi_password": log_watch.secret("ipmi-password")},
    )


def steps(service: Service, instance: virt.Instance) -> list[Callable[[], Any]]:
    """What has to do with a secret, in the order of a life."""
    driver = service.driver
    secrets: dict[str, Any] = {
        "injected_files": [("/etc/secret", FILE)],
        "admin_password": ADMIN_PASSWORD,
    }

    def spawn() -> None:
        driver.prepare_for_spawn(instance)
        vifs = [virt.Vif(str(uuid.uuid4()))]
        driver.spawn(virt.DeployRequest(instance, IMAGE, vifs, block_devices=[VOLUME], **secrets))

    return [
        spawn,
        lambda: driver.get_vnc_console(instance),
        lambda: driver.get_instance_diagnostics(instance),
        lambda: driver.rescue(instance, RESCUE_PASSWORD),
        lambda: driver.unrescue(instance),
        lambda: driver.rebuild(virt.DeployRequest(instance, IMAGE, **secrets)),
        lambda: driver.destroy(instance),
    ]


def taken(ironic: FakeIronicServer) -> str:
    """All that Ironic was sent in bodies."""
    return str([entry.body for entry in ironic.fake.requests])


def contents(drive: Any) -> str:
    """What a config drive holds, of either form."""
    if isinstance(drive, str):
        assert drive.startswith(log_watch.GZIPPED)
        return gzip.decompress(base64.b64decode(drive)).decode(errors="replace")
    return str(drive)


def test_a_life_takes_every_secret_to_ironic(service, ironic, node, watched_logs, form) -> None:
    for step in steps(service, service.instance_on(node)):
        step()
    sent = taken(ironic)
    assert RESCUE_PASSWORD in sent
    assert VOLUME_PASSWORD in sent
    drives = sent_drives(ironic.fake)
    assert len(drives) == len(("spawn", "rebuild"))
    for drive in drives:
        held = contents(drive)
        for secret in (ADMIN_PASSWORD, log_watch.secret("user-data")):
            assert secret in held
        assert base64.b64encode(FILE).decode() in held
    # It has been logged that these went out.
    own = (watched_logs / f"{os.getpid()}.log").read_text()
    assert f"PUT /nodes/{node}/states/provision" in own


FAULTS: dict[str, Callable[[FakeIronic], Any]] = {
    "refused": lambda fake: fake.faults.status(400, "PUT|POST|PATCH", count=1),
    "broken": lambda fake: fake.faults.status(500, "PUT|POST", count=1),
    "lost": lambda fake: fake.faults.lose_reply("PUT|POST|PATCH", count=3),
    "no access": lambda fake: fake.faults.status(401, count=2),
}


# What becomes of an error has to do with the form only where Ironic repeats what it was sent.
MATTER = [*(("json", fault) for fault in FAULTS), ("iso", "refused")]


@pytest.mark.parametrize(
    ("form", "fault"),
    depth.choose(MATTER, list(itertools.product(("json", "iso"), FAULTS))),
    indirect=["form"],
)
def test_whatever_fails_is_told_of(service, ironic, node, fault) -> None:
    instance = service.instance_on(node)
    failed = struck = 0
    for step in steps(service, instance):
        rule = FAULTS[fault](ironic.fake)
        try:
            step()
        except exceptions.IronicVirtError:
            logging.getLogger(__name__).exception("As a service does")
            failed += 1
        ironic.fake.faults.clear()
        with contextlib.suppress(exceptions.IronicVirtError):
            # The next step needs this one done.
            step()
        struck += rule.hits
    assert struck
    assert failed
