# SPDX-License-Identifier: Apache-2.0

"""The ironic.conf that is made of a test's options."""

import configparser
import dataclasses
from pathlib import Path

import pytest

from tools.real_ironic.configuration import INTERFACES, Options, Place, render
from tools.real_ironic.scripts.launch_ironic import PINNED_RELEASE

SQLITE = Place(Path("/state"), 6385, "sqlite:////state/ironic.sqlite")
MARIADB = Place(Path("/state"), 6385, "mysql+pymysql://root@localhost/x", "http://127.0.0.1:9696")


def rendered(
    options: Options, place: Place = SQLITE, lacking: frozenset[str] = frozenset()
) -> configparser.ConfigParser:
    def known(kind: str) -> set[str]:
        return {*INTERFACES[kind]} - lacking

    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(render(options, place, known))
    return parser


def test_an_interface_that_an_older_ironic_lacks_is_not_enabled():
    newer = frozenset({"fake-graphical"})
    default = rendered(Options(), lacking=newer)["DEFAULT"]
    assert default["enabled_console_interfaces"] == "fake,no-console,ipmitool-socat"


@pytest.mark.parametrize("delay", ["", "x", "-1", "1.5", "1,", "1,2,3"])
def test_a_delay_that_ironic_would_not_understand_is_refused(delay):
    with pytest.raises(ValueError, match="seconds"):
        Options(delays={"deploy": delay})


def test_an_unknown_delay_is_refused_with_the_list_of_known_ones():
    with pytest.raises(ValueError, match=r"depoy.*deploy, firmware"):
        Options(delays={"depoy": "1"})


def test_a_limited_api_version_pins_the_release_that_the_launcher_adds():
    assert "pin_release_version" not in rendered(Options())["DEFAULT"]
    pinned = rendered(Options(max_api_version="1.51"))["DEFAULT"]["pin_release_version"]
    assert pinned == PINNED_RELEASE


def test_an_api_version_without_the_major_part_is_refused():
    with pytest.raises(ValueError, match=r"1\.51"):
        Options(max_api_version="51")


def test_overrides_win_and_may_name_new_sections():
    overrides = {"conductor": {"automated_clean": "x"}, "inspector": {"a": "b"}}
    conf = rendered(Options(automated_clean=False, overrides=overrides))
    assert conf["conductor"]["automated_clean"] == "x"
    assert conf["inspector"]["a"] == "b"


def test_of_several_conductors_in_a_group_a_dead_one_is_found_out():
    assert float(rendered(Options())["conductor"]["heartbeat_timeout"]) > 1000
    place = dataclasses.replace(MARIADB, rpc_port=8089, rpc_host="127.1.2.3")
    conf = rendered(Options(conductors=2), place)
    assert conf["DEFAULT"]["host"] == conf["json_rpc"]["host_ip"] == "127.1.2.3"
    interval, timeout = (conf["conductor"][f"heartbeat_{one}"] for one in ("interval", "timeout"))
    assert float(interval) * 5 < float(timeout) < 60
