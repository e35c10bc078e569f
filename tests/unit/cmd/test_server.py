# SPDX-License-Identifier: Apache-2.0

"""Where a rescue's password comes from, and what is shown of a console's address."""

import argparse
import io
from pathlib import Path

import pytest

from ironic_virt import virt
from ironic_virt.cmd import server, server_ironic
from ironic_virt.compute.errors import InvalidRequest

PASSWORD = "correct horse"


def given(*argv: str, stdin: str = "") -> str | None:
    parser = argparse.ArgumentParser()
    server.Rescue.takes[0](parser)
    return server.given_password(parser.parse_args(argv), io.StringIO(stdin))


def test_a_password_comes_from_where_the_option_says(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(f"{PASSWORD}\r\nand more\n")
    assert given() is None
    assert given("--password", PASSWORD) == PASSWORD
    assert given("--password-file", str(tmp_path / "file")) == PASSWORD
    assert given("--password-file", "-", stdin=f"{PASSWORD}\n") == PASSWORD
    with pytest.raises(SystemExit):
        given("--password", PASSWORD, "--password-file", "-")


def test_a_file_without_a_password_says_so(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, why in (("none", "No such file"), ("binary", "not UTF-8")):
        with pytest.raises(InvalidRequest, match=why):
            given("--password-file", str(tmp_path / name))


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (virt.ConsoleAddress("serial", "192.0.2.8", 8013), "tcp://192.0.2.8:8013"),
        (virt.ConsoleAddress("serial", "2001:db8::8", 8013), "tcp://[2001:db8::8]:8013"),
        (virt.ConsoleAddress("vnc", "192.0.2.8", 6080, url="http://a/b"), "http://a/b"),
        (virt.ConsoleAddress("vnc", "192.0.2.8", 6080), None),
    ],
)
def test_the_url_is_what_a_program_opens(address: virt.ConsoleAddress, url: str | None) -> None:
    assert server_ironic.console_url(address) == url
