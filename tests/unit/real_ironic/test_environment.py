# SPDX-License-Identifier: Apache-2.0

"""Ironic's virtualenv: where it is, how it is built once, what a failure says.

A shell script stands for Python, so nothing is installed.
"""

import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from tools.real_ironic import errors
from tools.real_ironic.environment import (
    cache_directory,
    ensure_environment,
    environment_name,
)

# Called as "python -m venv DIRECTORY": makes one whose python, which is called as
# "python -m pip install ...", runs the script that stands for pip.
PYTHON = """#!/bin/sh
echo venv >> {calls}
mkdir -p "$3/bin" && printf '#!/bin/sh\\n{pip}\\n' > "$3/bin/python" && chmod +x "$3/bin/python"
"""


class Installation:
    """A cache, and a Python whose pip does as told."""

    def __init__(self, directory: Path) -> None:
        self.cache = directory / "cache"
        self.calls = directory / "calls"
        self.python = directory / "python"
        self.constraints = directory / "constraints.txt"
        self.constraints.write_text("six==1.17.0\n")
        self.progress: list[str] = []
        self.let_pip("exit 0")

    def let_pip(self, script: str) -> None:
        self.python.write_text(PYTHON.format(calls=self.calls, pip=script))
        self.python.chmod(0o755)

    def ensure(self):
        return ensure_environment(
            self.cache,
            python=str(self.python),
            constraints=self.constraints,
            progress=self.progress.append,
        )

    @property
    def builds(self) -> int:
        return self.calls.read_text().count("venv") if self.calls.exists() else 0


@pytest.fixture
def installation(tmp_path):
    return Installation(tmp_path)


def test_the_cache_is_where_the_user_says():
    variables = {"IRONIC_VIRT_CACHE": "/own", "XDG_CACHE_HOME": "/xdg", "HOME": "/home/me"}
    assert cache_directory(variables) == Path("/own")
    del variables["IRONIC_VIRT_CACHE"]
    assert cache_directory(variables) == Path("/xdg/ironic-virt")
    del variables["XDG_CACHE_HOME"]
    assert cache_directory(variables) == Path("/home/me/.cache/ironic-virt")


def test_another_ironic_is_used_as_it_is(installation, tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("IRONIC_VIRT_REAL_IRONIC", str(tmp_path / "own"))
    with pytest.raises(errors.EnvironmentBuildError, match=r"no Ironic in .*own"):
        installation.ensure()
    site = tmp_path / "own" / "lib" / "python3.12" / "site-packages" / "ironic-24.1.5.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: ironic\nVersion: 24.1.5\n")
    (site / "entry_points.txt").write_text(
        "[ironic.hardware.interfaces.console]\nfake = a:B\nno-console = a:C\n"
    )
    environment = installation.ensure()
    assert (environment.version, installation.builds) == ("24.1.5", 0)
    assert environment.interfaces("console") == {"fake", "no-console"}


def test_the_name_tells_apart_what_can_not_share_an_environment():
    name = environment_name("a==1\n", ironic_version="39.0.0", python_version=(3, 12))
    assert name.startswith("ironic-39.0.0-py3.12-")
    others = {
        environment_name("a==2\n", ironic_version="39.0.0", python_version=(3, 12)),
        environment_name("a==1\n", ironic_version="39.0.1", python_version=(3, 12)),
        environment_name("a==1\n", ironic_version="39.0.0", python_version=(3, 13)),
    }
    assert len(others | {name}) == 4


def test_it_is_built_once_and_then_found(installation):
    first = installation.ensure()
    assert first.directory.parent == installation.cache
    assert first.program("ironic") == first.directory / "bin" / "ironic"
    assert installation.ensure() == first
    assert installation.builds == 1


def test_the_user_sees_that_it_goes_on(installation):
    installation.let_pip("echo Collecting oslo.log; echo noise")
    installation.ensure()
    assert "Collecting oslo.log" in installation.progress
    assert "noise" not in installation.progress
    assert "39.0.0" in installation.progress[0]


def test_a_failure_shows_the_last_lines_and_is_tried_again(installation):
    installation.let_pip('for i in $(seq 100); do echo line $i; done; echo "no wheel" >&2; exit 7')
    with pytest.raises(errors.EnvironmentBuildError) as caught:
        installation.ensure()
    assert "install Ironic 39.0.0" in str(caught.value)
    assert "status 7" in str(caught.value)
    assert caught.value.output.endswith("line 100\nno wheel")
    assert "line 50" not in caught.value.output

    installation.let_pip("exit 0")
    installation.ensure()
    assert installation.builds == 2


def test_a_build_that_is_given_up_is_ended(installation, tmp_path):
    class GivenUp(BaseException):
        pass

    def give_up(line):
        if line.startswith("Collecting"):
            raise GivenUp

    installation.let_pip(f"echo Collecting oslo.log; sleep 5; touch {tmp_path}/went-on")
    installation.progress = Mock(append=give_up)
    with pytest.raises(GivenUp):
        installation.ensure()
    assert not (tmp_path / "went-on").exists()


def test_what_a_killed_build_left_is_not_used(installation):
    environment = installation.ensure()
    (environment.directory / "complete").unlink()
    (environment.directory / "half").touch()
    installation.ensure()
    assert installation.builds == 2
    assert not (environment.directory / "half").exists()


def test_of_two_at_once_one_builds(installation):
    start = threading.Barrier(2)

    def ensure():
        start.wait()
        installation.ensure()

    threads = [threading.Thread(target=ensure) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert installation.builds == 1
