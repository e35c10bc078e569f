# SPDX-License-Identifier: Apache-2.0

"""Five ways to install Nova and our package: two virtual environments, and three on Debian 13.

What takes long to make is kept in a directory: the environments with Nova, and the root of
Debian, without our package.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.layouts import words
from tests.nova_deployment.deployment import Installation

NOVA = "34.0.0"
PLACEMENT = "16.0.0"
CHECKOUT = Path(__file__).parents[2]

_PROGRAMS = {
    "nova-compute": "nova.cmd.compute",
    "nova-conductor": "nova.cmd.conductor",
    "nova-manage": "nova.cmd.manage",
    "nova-scheduler": "nova.cmd.scheduler",
}
_BESIDE_NOVA = (f"openstack-placement=={PLACEMENT}", "PyMySQL", "cheroot")
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_MIRROR = "http://deb.debian.org/debian"
_DEBIAN = (
    *("ca-certificates", "nova-api", "python3-cheroot", "python3-nova", "python3-pip"),
    *("python3-placement", "python3-pymysql", "python3-venv"),
)


class Broken(Exception):
    """A step failed; the text is what it said."""


def run(command: Sequence[str | Path], cwd: Path | None = None) -> str:
    """Run a program and return what it printed.

    :raises Broken: it failed, or isn't there.
    """
    try:
        done = subprocess.run(
            [*map(str, command)], capture_output=True, text=True, check=False, cwd=cwd
        )
    except FileNotFoundError as error:
        raise Broken(f"{command[0]} is needed and is not installed") from error
    if done.returncode:
        raise Broken(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


class VirtualEnvironments:
    """Nova in a virtual environment, and our package in the same one.

    :param directory: where they are kept.
    :param wheel: ours.
    """

    def __init__(self, directory: Path, wheel: Path) -> None:
        self._directory = directory
        self._wheel = wheel

    def wheels(self) -> Installation:
        """Nova from wheels, our package from a checkout as the README says."""
        prefix = self._nova("wheels", [f"nova=={NOVA}"])
        checkout = self._directory / "checkout"
        shutil.rmtree(checkout, ignore_errors=True)
        run(["git", "checkout-index", "--all", f"--prefix={checkout}/"], cwd=CHECKOUT)
        run([prefix / "bin" / "pip", "uninstall", "--quiet", "--yes", "ironic-virt"])
        constraints = run([prefix / "bin" / "pip", "freeze"])
        (checkout / "upper-constraints.txt").write_text(constraints)
        program, *arguments = words.command("pip")
        run([program.replace("/path/to/nova/venv", str(prefix)), *arguments], cwd=checkout)
        return Installation(prefix, paste=prefix / "etc" / "nova" / "api-paste.ini")

    def editable(self) -> Installation:
        """Nova editable, as DevStack installs it."""
        source = self._directory / f"nova-{NOVA}"
        if not source.exists():
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            pip += ["--no-binary", "nova", "--dest", str(self._directory)]
            run([*pip, f"nova=={NOVA}"])
            archive = self._directory / f"nova-{NOVA}.tar.gz"
            run(["tar", "-xf", archive, "-C", self._directory])
        prefix = self._nova("editable", ["--editable", str(source)])
        pip: list[str | Path] = [prefix / "bin" / "pip", "install", "--quiet"]
        run([*pip, "--force-reinstall", "--no-deps", self._wheel])
        run([*pip, self._wheel])
        return Installation(prefix, paste=source / "etc" / "nova" / "api-paste.ini")

    def _nova(self, name: str, nova: Sequence[str]) -> Path:
        prefix = self._directory / name
        pip: list[str | Path] = [prefix / "bin" / "pip", "install", "--quiet"]
        if not (prefix / "complete").exists():
            shutil.rmtree(prefix, ignore_errors=True)
            run([sys.executable, "-m", "venv", prefix])
            run([*pip, *nova, *_BESIDE_NOVA])
            (prefix / "complete").touch()
        return prefix


class Debian:
    """Nova of Debian 13, in its own root that shares the network and ``/tmp`` with us.

    Its mounts end with the mount namespace of this process.

    :param directory: where the root is kept.
    :param wheel: ours.
    :param package: ours, for Debian.
    """

    def __init__(self, directory: Path, wheel: Path, package: Path) -> None:
        self._root = directory / "debian"
        self._wheel = wheel
        self._package = package
        self._is_mounted = False

    def usr_local(self) -> Installation:
        """Nova in ``dist-packages``, our wheel in ``/usr/local``."""
        self._enter()
        self._pip("/usr/bin/python3", "--break-system-packages", "--root-user-action=ignore")
        return self._installation("usr-local", "/usr/bin/python3", scripts="/usr/local/bin")

    def system_site_packages(self) -> Installation:
        """Our wheel in a virtual environment over the system's site packages."""
        self._enter()
        python = "/opt/system/bin/python3"
        self._chroot("rm", "-rf", "/opt/system")
        self._chroot("/usr/bin/python3", "-m", "venv", "--system-site-packages", "/opt/system")
        self._pip(python)
        return self._installation("system-site-packages", python, scripts="/opt/system/bin")

    def package(self) -> Installation:
        """Our Debian package next to Nova's, as the README says."""
        self._enter()
        dist = self._root / "opt" / "dist"
        shutil.rmtree(dist, ignore_errors=True)
        dist.mkdir()
        shutil.copy(self._package, dist)
        self._chroot("apt-get", "update")
        apt = f"cd /opt && {' '.join(words.command('apt-get'))} --yes --no-install-recommends"
        self._chroot("sh", "-c", f"{apt} --reinstall")
        return self._installation("package", "/usr/bin/python3", scripts="/usr/bin")

    def leave(self) -> None:
        """Take our package away again, in all three ways."""
        self._chroot("dpkg", "--purge", "ironic-virt")
        pip = ("-m", "pip", "uninstall", "--quiet", "--yes", "--break-system-packages")
        self._chroot("/usr/bin/python3", *pip, "ironic-virt")
        for line in ("import ironic_virt", "import nova.virt.ironic_virt"):
            try:
                self._chroot("/usr/bin/python3", "-c", line)
            except Broken as error:
                if "No module named" in str(error):
                    continue
                raise
            raise Broken(f"{line!r} still works when the package is gone")
        self._chroot("/usr/bin/python3", "-c", "import nova.virt.ironic.driver")

    def _enter(self) -> None:
        if self._is_mounted:
            return
        if not (self._root / "complete").exists():
            shutil.rmtree(self._root, ignore_errors=True)
            make = ["mmdebstrap", "--quiet", "--variant=minbase", "--dpkgopt=force-unsafe-io"]
            run([*make, f"--include={','.join(_DEBIAN)}", "trixie", self._root, _MIRROR])
            (self._root / "complete").touch()
        # The names of hosts and the certificates are those of this machine.
        for file in map(Path, ("/etc/resolv.conf", "/etc/hosts", _CERTIFICATES)):
            if file.exists():
                shutil.copy(file, self._root / file.relative_to("/"))
        run(["mount", "-t", "proc", "proc", self._root / "proc"])
        shared = [Path("/dev"), Path("/tmp"), Path("/run"), CHECKOUT]
        for place in (*shared, self._wheel.parent):
            inside = self._root / place.relative_to("/")
            inside.mkdir(parents=True, exist_ok=True)
            run(["mount", "--rbind", place, inside])
        self._is_mounted = True

    def _chroot(self, *command: str) -> str:
        variables = ["LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
        return run(["chroot", self._root, "env", *variables, *command])

    def _pip(self, python: str, *options: str) -> None:
        install = (python, "-m", "pip", "install", "--quiet", *options)
        self._chroot(*install, str(self._wheel))

    def _installation(self, name: str, python: str, *, scripts: str) -> Installation:
        """Programs that run Nova with a Python of the root.

        :param scripts: the directory with those of our package.
        """
        prefix = Path("/opt/programs") / name
        directory = self._root / (prefix / "bin").relative_to("/")
        directory.mkdir(parents=True, exist_ok=True)
        lines = {"python3": f'exec {python} "$@"'}
        lines["ironic-virt-fleet"] = f'exec {scripts}/ironic-virt-fleet "$@"'
        for program, module in _PROGRAMS.items():
            code = f"import sys; sys.argv[0] = '{program}'; from {module} import main; main()"
            lines[program] = f'exec {python} -c "{code}" "$@"'
        for program, line in lines.items():
            path = directory / program
            path.write_text(f"#!/bin/sh\n{line}\n")
            path.chmod(0o755)
        paste = self._root / "etc" / "nova" / "api-paste.ini"
        return Installation(prefix, ("chroot", str(self._root)), paste)
