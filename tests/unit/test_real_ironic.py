# SPDX-License-Identifier: Apache-2.0

"""The real Ironic of the tests: where its virtualenv is, its options, and what a failure says.

A shell script stands for Python, so nothing is installed.
"""

import configparser
import io
from pathlib import Path

import pytest

from ironic_virt.cmd.demo.commands import DemoFailed
from ironic_virt.cmd.progress import Display
from tools import demo, real_ironic
from tools.real_ironic import database as databases
from tools.real_ironic import errors
from tools.real_ironic.configuration import INTERFACES, Options, Place, render
from tools.real_ironic.environment import IronicEnvironment, ensure_environment
from tools.real_ironic.scripts.launch_ironic import PINNED_RELEASE

# Called as "python -m venv DIRECTORY": makes one whose python, which is called as
# "python -m pip install ...", runs the script that stands for pip.
PYTHON = """#!/bin/sh
echo venv >> {calls}
mkdir -p "$3/bin" && printf '#!/bin/sh\\n{pip}\\n' > "$3/bin/python" && chmod +x "$3/bin/python"
"""


class Installation:
    """A cache, and a Python whose pip runs a script of the test."""

    def __init__(self, directory: Path) -> None:
        self.cache = directory / "cache"
        self.calls = directory / "calls"
        self.python = directory / "python"
        self.constraints = directory / "constraints.txt"
        self.constraints.write_text("six==1.17.0\n")
        self.let_pip("exit 0")

    def let_pip(self, script: str) -> None:
        self.python.write_text(PYTHON.format(calls=self.calls, pip=script))
        self.python.chmod(0o755)

    def ensure(self) -> IronicEnvironment:
        return ensure_environment(
            self.cache,
            python=str(self.python),
            constraints=self.constraints,
            progress=lambda line: None,
        )

    @property
    def builds(self) -> int:
        return self.calls.read_text().count("venv") if self.calls.exists() else 0


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def test_another_ironic_is_used_as_it_is(installation, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("IRONIC_VIRT_REAL_IRONIC", str(tmp_path / "own"))
    with pytest.raises(errors.EnvironmentBuildError, match=r"no Ironic in .*own"):
        installation.ensure()
    site = tmp_path / "own" / "lib" / "python3.12" / "site-packages" / "ironic-24.1.5.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: ironic\nVersion: 24.1.5\n")
    (site / "entry_points.txt").write_text("[ironic.hardware.interfaces.console]\nfake = a:B\n")
    environment = installation.ensure()
    assert (environment.version, installation.builds) == ("24.1.5", 0)
    assert environment.interfaces("console") == {"fake"}


def test_it_is_built_once_and_again_after_a_failure(installation) -> None:
    installation.let_pip('for i in $(seq 100); do echo line $i; done; echo "no wheel" >&2; exit 7')
    with pytest.raises(errors.EnvironmentBuildError, match=r"install Ironic .*status 7") as caught:
        installation.ensure()
    assert caught.value.output.endswith("line 100\nno wheel")
    assert "line 50" not in caught.value.output
    installation.let_pip("exit 0")
    environment = installation.ensure()
    assert installation.ensure() == environment
    assert installation.builds == 2
    (environment.directory / "complete").unlink()
    (environment.directory / "half").touch()
    installation.ensure()
    assert installation.builds == 3
    assert not (environment.directory / "half").exists()


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
