# SPDX-License-Identifier: Apache-2.0

"""The start page on a standalone Ironic with ``http_basic``, as Bifrost sets one up."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional import typed
from tools import real_ironic

PAGE = typed.ROOT / "doc" / "source" / "start" / "without_nova.rst"
PASSWORD = "correct horse"
HASH = "$2b$04$rCFtV4gAQ7lZhdHSECFsUuW7jJvNZfgYA24P7HyKyojDHjrHLBHyq"
SHA256 = "6b3a55e0261b0304143f805a24924d0c1c44524821305f31d9277843b8a10f4e"
SECONDS = 600

reader = typed.reader


@pytest.fixture(scope="module")
def ironic(ironic_environment, tmp_path_factory) -> Iterator[real_ironic.RealIronic]:
    """An Ironic that answers nobody without a password, and a node of it."""
    directory = tmp_path_factory.mktemp("standalone")
    (directory / "htpasswd").write_text(f"bifrost_user:{HASH}\n")
    # What the test itself asks is sent with this; the programs don't see it.
    netrc = directory / "netrc"
    netrc.write_text(f'machine 127.0.0.1 login bifrost_user password "{PASSWORD}"\n')
    basic = {
        "auth_strategy": "http_basic",
        "http_basic_auth_user_file": str(directory / "htpasswd"),
    }
    options = real_ironic.Options(vifs=False, overrides={"DEFAULT": basic})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NETRC", str(netrc))
        with real_ironic.RealIronic(options, environment=ironic_environment) as ironic:
            real_ironic.create_nodes(ironic, 1)
            yield ironic


def write_conf(path: Path, url: str, password: str) -> None:
    """Write the page's file: what stays, and what is different on your own Ironic."""
    (first,) = typed.blocks(typed.section(PAGE, "On the fake Ironic"), "ini")
    (basic,) = typed.blocks(typed.section(PAGE, "On your own Ironic"), "ini")
    general, _, _ = first.partition("[ironic]")
    path.write_text(general + basic.replace("http://127.0.0.1:6385", url).replace("...", password))


def test_a_server_is_built_as_the_page_says(reader, ironic) -> None:
    write_conf(reader.here / "ironic-virt.conf", ironic.url, PASSWORD)
    (reader.here / "id_ed25519.pub").write_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me@here\n")
    lines = typed.commands(typed.section(PAGE, "On your own Ironic"))
    delete = "ironic-virt server delete --wait first"
    said = reader.type_in(
        [*lines, delete, "kill %1"], replaced={"<sha256>": SHA256}, seconds=SECONDS
    )
    (built,) = [shown for command, shown in said.items() if " server create " in command]
    assert re.search(r"\| status +\| ACTIVE ", built)
    assert PASSWORD not in "".join(said.values())


def test_of_a_wrong_password_the_log_says_where_to_look(reader, ironic) -> None:
    write_conf(reader.here / "ironic-virt.conf", ironic.url, "wrong")
    start = "ironic-virt-compute --config-file ironic-virt.conf 2> log &"
    said = "grep 'refuses this service. See the credentials in .ironic.' log"
    reader.type_in([start, f"until {said}; do sleep 0.2; done", "kill %1"], seconds=SECONDS)
    assert "HTTP 401" in (reader.here / "log").read_text()
