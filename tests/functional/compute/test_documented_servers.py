# SPDX-License-Identifier: Apache-2.0

"""The pages about servers without Nova: their commands, in their order, with their file."""

import hashlib
import json
import re
from collections.abc import Iterator

import pytest

from tests.config_drives import sent_drives
from tests.functional import typed
from tests.ports import reserved_port

PAGE = typed.ROOT / "doc" / "source" / "user" / "servers.rst"
START = typed.ROOT / "doc" / "source" / "start" / "without_nova.rst"
IMAGES = START.with_name("images.rst")
README = typed.ROOT / "README.rst"
# Some thirty commands, each its own process, on a host that may be busy.
SECONDS = 840
WEB = "http://192.0.2.1:8080"
"""The web server of the page on images."""
QUICK = "\n[compute]\ntask_interval = 0.2\n"
DEPLOY_TIME = {"--deploy-time 2,4": "--deploy-time 0.2,0.4"}
"""What the pages say, and what a test has the time for."""
# What a reader sees by looking: that what was started is there.
READY = {
    "ironic-virt-fake-ironic": (
        "until (exec 3<>/dev/tcp/127.0.0.1/6385) 2>/dev/null; do sleep 0.1; done"
    ),
    "ironic-virt-compute": (
        "until [ $(ironic-virt --config-file ironic-virt.conf node list -f value -c UUID"
        " | wc -l) = 5 ]; do sleep 0.1; done"
    ),
}

reader = typed.reader
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


def test_its_commands_lead_to_a_server_and_back(reader: typed.Reader, port: int) -> None:
    text = PAGE.read_text()
    (config,) = typed.blocks(text, "ini")
    (reader.here / "ironic-virt.conf").write_text(config.replace("6385", str(port)) + QUICK)
    said = reader.type_in(
        typed.commands(text),
        ready=READY,
        replaced=DEPLOY_TIME | {"6385": str(port)},
        seconds=SECONDS,
    )
    shown = said["ironic-virt server show web"]
    assert re.search(r"\| status +\| ACTIVE ", shown)
    fault = said["ironic-virt server show web -c status -c fault"]
    assert re.search(r"\| fault +\| None ", fault)
    ports = said["ironic-virt server show web -c ports -f json"]
    assert json.loads(ports) == {"ports": ["5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11"]}
    addresses = said["ironic-virt server show static -c addresses -f json"]
    assert json.loads(addresses) == {"addresses": ["192.0.2.10"]}
    assert "/vnc" in said["ironic-virt server console url show --vnc web -f value -c url"]
    assert re.search(r"\| state +\| running ", said["ironic-virt server diagnostics show web"])
    assert "| adminPass " in said["ironic-virt server rescue --wait web"]


@pytest.mark.parametrize(
    ("page", "heading"),
    [(README, "Without Nova"), (START, "On the fake Ironic")],
    ids=["README", "start"],
)
def test_what_a_newcomer_types_works_as_printed(reader, port, page, heading) -> None:
    text = typed.section(page, heading)
    (config,) = typed.blocks(text, "ini")
    (reader.here / "ironic-virt.conf").write_text(config.replace("6385", str(port)))
    said = reader.type_in(
        typed.commands(text), replaced=DEPLOY_TIME | {"6385": str(port)}, seconds=SECONDS
    )
    (built,) = [shown for command, shown in said.items() if " server create " in command]
    assert re.search(r"\| status +\| ACTIVE ", built)
    (deleted,) = [shown for command, shown in said.items() if " server delete " in command]
    assert "deleted" in deleted


def test_images_keys_and_user_data_reach_ironic_as_printed(reader, server, port) -> None:
    server.fake.add_nodes(3, resource_class="baremetal", ports=1)
    started = typed.section(START, "On the fake Ironic")
    (config,) = typed.blocks(started, "ini")
    url = "http://127.0.0.1:6385"
    (reader.here / "ironic-virt.conf").write_text(config.replace(url, server.url) + QUICK)
    lines = [line for line in typed.commands(started) if "-fake-ironic " not in line]
    begin = lines[: 1 + next(at for at, line in enumerate(lines) if " flavor create " in line)]
    text = IMAGES.read_text()
    (user_data,) = typed.blocks(text, "yaml")
    (reader.here / "user-data.yaml").write_text(user_data)
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me@here"
    (reader.here / "id_ed25519.pub").write_text(key)
    images = reader.here / "images"
    images.mkdir()
    (images / "debian.qcow2").write_bytes(b"a disk")
    reader.type_in(
        begin + typed.commands(text),
        replaced={"8080 --directory": f"{port} --directory"},
        seconds=SECONDS,
    )
    deployed = server.fake.requests.matching("PATCH", "/v1/nodes/[^/]+$")
    told = {
        change["value"]
        for request in deployed
        for change in request.body
        if change["path"].startswith("/instance_info/image_")
    }
    digest = hashlib.sha256(b"a disk").hexdigest()
    assert told == {f"{WEB}/debian.qcow2", f"{WEB}/SHA256SUMS", digest, "whole-disk"}
    drive = sent_drives(server.fake)[-1]
    assert drive["user_data"] == user_data
    assert drive["meta_data"]["public_keys"] == {"id_ed25519": key}
    assert drive["meta_data"]["meta"] == {"role": "web"}
    assert drive["meta_data"]["hostname"] == "set-up"
