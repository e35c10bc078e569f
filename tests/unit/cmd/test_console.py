# SPDX-License-Identifier: Apache-2.0

"""What is shown of a console's address."""

import pytest

from ironic_virt import virt
from ironic_virt.cmd import console


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
    assert console.url(address) == url
