# SPDX-License-Identifier: Apache-2.0

"""Nova finds the driver wherever it lies, from a real wheel; and what is so without Nova."""

import ast
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(sysconfig.get_paths()["purelib"])
OURS = ("ironic_virt", "__editable__")
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
    _copy_checkout(source)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(directory), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(directory.glob("*.whl"))


def _copy_checkout(target: Path) -> None:
    left_out = shutil.ignore_patterns(".envs", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, target, ignore=left_out)


class Environment:
    """An environment with what this one has, but for ``ironic_virt`` and Nova.

    :param nova: a directory in which Nova is to be, too: the environment's own or another one.
    """

    def __init__(self, directory: Path, nova: str | None = None) -> None:
        venv.create(directory, with_pip=False, symlinks=True)
        self.python = directory / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = directory / "lib" / version / "site-packages"
        _link(SITE, self.site, lambda name: not name.startswith((*OURS, "nova", "__pycache__")))
        if nova is None:
            return
        place = self.site / nova
        place.mkdir(exist_ok=True)
        _link(SITE, place, lambda name: name == "nova" or name.startswith("nova-"))
        if place != self.site:
            # As dist-packages next to /usr/local, or an editable installation of Nova.
            (self.site / "nova.pth").write_text(f"{place}\n")

    def pip(self, *arguments: str) -> str:
        """Run pip on it."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run code in it, far from the checkout."""
        return subprocess.run(
            [str(self.python), "-E", "-W", "ignore", "-c", code, *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.site,
        )


def _link(source: Path, target: Path, wanted: Callable[[str], bool]) -> None:
    for entry in source.iterdir():
        if wanted(entry.name):
            (target / entry.name).symlink_to(entry)


@pytest.mark.parametrize("place", ["", "elsewhere"])
def test_nova_loads_the_driver_from_a_wheel_and_says_so(tmp_path, wheel, place) -> None:
    environment = Environment(tmp_path / "env", nova=place)
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
    assert environment.run("import nova.virt.ironic.driver").returncode == 0
    done = environment.run("import nova.virt.ironic_virt")
    assert done.stderr.endswith("No module named 'nova.virt.ironic_virt'\n")


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
    tmp_path, wheel, recipe, wheels, constraints
) -> None:
    environment = Environment(tmp_path / "env", nova="")
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
    assert environment.run("import nova.virt.ironic_virt").returncode == 0


def test_a_package_of_novas_own_goes_before(tmp_path: Path, wheel: Path) -> None:
    environment = Environment(tmp_path / "env")
    environment.pip("install", "--no-deps", "--quiet", str(wheel))
    package = environment.site / "nova" / "virt" / "ironic_virt"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("NOVAS = True\n")
    done = environment.run("import nova.virt.ironic_virt as door; print(door.NOVAS)")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_the_wheel_leaves_novas_packages_to_nova(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    outside = [name for name in names if not name.startswith("ironic_virt")]
    assert not outside
    assert "ironic_virt_nova.pth" in names


def test_without_nova_everything_else_works(tmp_path: Path, wheel: Path) -> None:
    environment = Environment(tmp_path / "env")
    environment.pip("install", "--no-deps", "--quiet", str(wheel))
    done = environment.run("import sys; print([*sys.modules])")
    assert not [name for name in ast.literal_eval(done.stdout) if name.startswith("ironic_virt")]
    done = environment.run(
        "import sys, ironic_virt.cmd.shell, ironic_virt.driver, ironic_virt.nova\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('nova', 'eventlet')])"
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    done = environment.run("import nova.virt.ironic_virt")
    assert done.stderr.endswith("No module named 'nova'\n")


def test_nova_finds_the_driver_of_an_editable_installation(tmp_path: Path) -> None:
    source = tmp_path / "source"
    _copy_checkout(source)
    environment = Environment(tmp_path / "env", nova="")
    environment.pip("install", "--no-deps", "--quiet", "--editable", str(source))
    done = environment.run("import nova.virt.ironic_virt as door; print(door.__file__)")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == source / "ironic_virt" / "nova" / "door.py"
