# SPDX-License-Identifier: Apache-2.0

"""The door that nova-compute opens, from a real wheel beside Nova, and without Nova."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(sysconfig.get_paths()["purelib"])
LOAD = """
import logging, pathlib, sys
logging.basicConfig(level=logging.INFO)
from keystoneauth1 import loading
import nova.conf
from nova.virt import driver
CONF = nova.conf.CONF
CONF.register_opts(loading.get_auth_plugin_conf_options("none"), group="ironic")
CONF(["--config-file", sys.argv[1]], project="nova", default_config_files=[])
loaded = driver.load_compute_driver(None)
print(type(loaded).__module__, type(loaded).__name__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, built in isolation as a release is."""
    directory = tmp_path_factory.mktemp("dist")
    # From a copy: what a build leaves must not lie in the checkout.
    source = directory / "source"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".envs", "build", "*.egg-info", "__pycache__")
    )
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(directory), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(directory.glob("*.whl"))


class Environment:
    """An environment with what this one has, but for ``ironic_virt``.

    :param nova: with Nova, too.
    """

    def __init__(self, directory: Path, *, nova: bool) -> None:
        venv.create(directory, with_pip=False, symlinks=True)
        self.python = directory / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = directory / "lib" / version / "site-packages"
        left_out = ("ironic_virt", "__editable__", "__pycache__", "nova")
        _link(SITE, self.site, left_out)
        if nova:
            # Real directories where the wheel puts its own; the rest is Nova's.
            _link(SITE / "nova", self.site / "nova", ("virt", "tests", "__pycache__"))
            _link(SITE / "nova" / "virt", self.site / "nova" / "virt", ("__pycache__",))
            _link(SITE, self.site, (), "nova-*")

    def pip(self, *arguments: str) -> str:
        """Run pip on it."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run code in it, far from the checkout."""
        return subprocess.run(
            [str(self.python), "-W", "ignore", "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.site,
        )


def _link(source: Path, target: Path, left_out: tuple[str, ...], pattern: str = "*") -> None:
    target.mkdir(exist_ok=True)
    for entry in source.glob(pattern):
        if not entry.name.startswith(left_out or ("\0",)):
            (target / entry.name).symlink_to(entry)


def test_nova_loads_the_driver_from_a_wheel_and_says_so(tmp_path: Path, wheel: Path) -> None:
    environment = Environment(tmp_path / "env", nova=True)
    environment.pip("install", "--no-deps", "--quiet", str(wheel))
    config = tmp_path / "nova.conf"
    config.write_text(
        "[DEFAULT]\ncompute_driver = ironic_virt.IronicDriver\nhost = compute1\n"
        "[ironic]\nauth_type = none\nendpoint_override = http://127.0.0.1:1\nshard = a\n"
    )
    done = environment.run(LOAD, str(config))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ironic_virt.nova.driver", "IronicDriver"]
    version = wheel.name.split("-")[1]
    assert f"Loaded the driver of ironic_virt {version}" in done.stderr

    environment.pip("uninstall", "--yes", "ironic-virt")
    assert not (environment.site / "nova" / "virt" / "ironic_virt").exists()
    assert environment.run("import nova.virt.ironic.driver").returncode == 0


@pytest.mark.parametrize(
    ("recipe", "wheels", "constraints"),
    [
        (
            "container/Containerfile",
            "/tmp/ironic_virt",
            "${CONSTRAINTS:?names no upper constraints}",
        ),
        ("kolla/template-override.j2", "/additions", "/requirements/upper-constraints.txt"),
    ],
)
def test_the_recipe_of_an_image_installs_it_beside_nova(
    tmp_path: Path, wheel: Path, recipe: str, wheels: str, constraints: str
) -> None:
    environment = Environment(tmp_path / "env", nova=True)
    text = (ROOT / "etc" / "deploy" / recipe).read_text()
    (step,) = re.findall(r"^RUN ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert wheels in step
    assert constraints in step
    ours = tmp_path / "image"
    (ours / "ironic-virt").mkdir(parents=True)
    shutil.copy(wheel, ours / "ironic-virt" if "additions" in wheels else ours)
    allowed = tmp_path / "upper-constraints.txt"
    # What Nova has here.  Nothing else is needed, so no index is asked.
    have = environment.pip("freeze").splitlines()
    allowed.write_text("\n".join(line for line in have if "==" in line))
    step = step.replace(wheels, str(ours)).replace(constraints, str(allowed))
    done = subprocess.run(
        ["bash", "-ec", step],
        env={"PATH": f"{environment.python.parent}:/usr/bin:/bin", "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=environment.site,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not ours.exists()
    assert (environment.site / "nova" / "virt" / "ironic_virt" / "__init__.py").exists()


def test_the_wheel_leaves_novas_packages_to_nova(wheel: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("nova/")]
    assert names == ["nova/virt/ironic_virt/__init__.py"]


def test_without_nova_the_door_says_what_is_missing(tmp_path: Path, wheel: Path) -> None:
    environment = Environment(tmp_path / "env", nova=False)
    environment.pip("install", "--no-deps", "--quiet", str(wheel))
    done = environment.run("import nova.virt.ironic_virt")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: nova.virt.ironic_virt is where OpenStack Nova finds")
    assert "Nova is not installed here" in last
    assert "pip install nova" in last


def test_without_nova_no_file_of_ours_is_left_where_nova_would_be(
    tmp_path: Path, wheel: Path
) -> None:
    environment = Environment(tmp_path / "env", nova=False)
    environment.pip("install", "--no-deps", "--quiet", str(wheel))
    # Once imported, there are compiled files beside what pip knows of.
    environment.run("import nova.virt.ironic_virt")
    environment.pip("uninstall", "--yes", "ironic-virt")
    # pip leaves nova/virt itself, empty, which no installation of Nova minds.
    assert not [path for path in (environment.site / "nova").rglob("*") if path.is_file()]
    assert not (environment.site / "nova" / "virt" / "ironic_virt").exists()


def test_without_nova_everything_else_works_and_touches_nothing_of_it(
    tmp_path: Path, wheel: Path
) -> None:
    environment = Environment(tmp_path / "env", nova=False)
    environment.pip("install", "--no-deps", "--quiet", str(wheel))
    done = environment.run(
        "import sys, ironic_virt.cmd.shell, ironic_virt.driver, ironic_virt.nova\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('nova', 'eventlet')])"
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


def test_the_door_opens_in_an_editable_installation(tmp_path: Path) -> None:
    installed = metadata.distribution("ironic-virt")
    if "dir_info" not in (installed.read_text("direct_url.json") or ""):
        pytest.skip("ironic-virt is installed from a wheel here")
    code = "import nova.virt.ironic_virt as door; print(door.__file__)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == ROOT / "nova_door" / "__init__.py"
