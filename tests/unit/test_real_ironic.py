# SPDX-License-Identifier: Apache-2.0

"""The real Ironic of the tests: where its virtualenv is, its options, and what a failure says."""

import configparser
import io
from pathlib import Path

import pytest

from ironic_virt.cmd.demo.commands import DemoFailed, Display
from tools import demo, real_ironic
from tools.real_ironic import database as databases
from tools.real_ironic import errors
from tools.real_ironic.configuration import INTERFACES, Options, Place, render
from tools.real_ironic.environment import IronicEnvironment, ensure_environment
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


def test_without_a_database_the_error_says_what_to_do(monkeypatch) -> None:
    def execute(python, program, action, name, *urls, **more):
        return "", "".join(f"{url}: refused\n" for url in urls)

    monkeypatch.setattr(databases.processutils, "execute", execute)
    monkeypatch.setattr(databases, "find_program", lambda name: None)
    environment = IronicEnvironment(Path("/venv"))
    named = {databases.MARIADB_VARIABLE: "mysql+pymysql://u@h/"}
    for variables, says in (({}, "apt-get install mariadb-server"), (named, "u@h/: refused")):
        with (
            pytest.raises(errors.DatabaseError, match=says),
            databases.database("mariadb", environment, Path("/state"), variables=variables),
        ):
            pass


def test_older_ironics_lack_an_interface_or_are_pinned() -> None:
    place = Place(Path("/state"), 6385, "sqlite:////state/ironic.sqlite")
    parser = configparser.ConfigParser(interpolation=None)
    options = Options(max_api_version="1.51")
    parser.read_string(
        render(options, place, lambda kind: {*INTERFACES[kind]} - {"fake-graphical"})
    )
    assert parser["DEFAULT"]["enabled_console_interfaces"] == "fake,no-console,ipmitool-socat"
    assert parser["DEFAULT"]["pin_release_version"] == PINNED_RELEASE


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            real_ironic.StartError("dbsync failed:", "a\nfull"),
            "dbsync failed: full (-v shows more)",
        ),
        (real_ironic.DatabaseError("No database. Start one."), "No database. Start one."),
    ],
)
def test_a_demo_without_its_ironic_says_why_in_one_line(monkeypatch, error, said) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(real_ironic, "ensure_environment", fail)
    with pytest.raises(DemoFailed) as caught, demo.real(3, 1.0, Display(io.StringIO())):
        pass
    assert str(caught.value) == said
