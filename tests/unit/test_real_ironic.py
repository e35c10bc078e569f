# SPDX-License-Identifier: Apache-2.0

"""The real Ironic of the tests: where its virtualenv is, and its options."""

import configparser
from pathlib import Path

import pytest

from tools.real_ironic import errors
from tools.real_ironic.configuration import INTERFACES, Options, Place, render
from tools.real_ironic.environment import ensure_environment
from tools.real_ironic.scripts.launch_ironic import PINNED_RELEASE


def test_another_ironic_is_used_as_it_is(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("IRONIC_VIRT_REAL_IRONIC", str(tmp_path / "own"))
    with pytest.raises(errors.EnvironmentBuildError, match=r"no Ironic in .*own"):
        ensure_environment()
    site = tmp_path / "own" / "lib" / "python3.12" / "site-packages" / "ironic-24.1.5.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: ironic\nVersion: 24.1.5\n")
    (site / "entry_points.txt").write_text("[ironic.hardware.interfaces.console]\nfake = a:B\n")
    environment = ensure_environment()
    assert (environment.directory, environment.version) == (tmp_path / "own", "24.1.5")
    assert environment.interfaces("console") == {"fake"}


def test_older_ironics_lack_an_interface_or_are_pinned() -> None:
    place = Place(Path("/state"), 6385, "sqlite:////state/ironic.sqlite")
    parser = configparser.ConfigParser(interpolation=None)
    options = Options(max_api_version="1.51")
    parser.read_string(
        render(options, place, lambda kind: {*INTERFACES[kind]} - {"fake-graphical"})
    )
    assert parser["DEFAULT"]["enabled_console_interfaces"] == "fake,no-console,ipmitool-socat"
    assert parser["DEFAULT"]["pin_release_version"] == PINNED_RELEASE
