# SPDX-License-Identifier: Apache-2.0

"""What the installed distribution promises: entry points, data, licences."""

import ast
import inspect
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import metadata

import pytest
from packaging import requirements, utils

import ironic_virt

ROOT = pathlib.Path(__file__).parents[2]
DISTRIBUTION = metadata.distribution("ironic-virt")
NOTICE = "SPDX-License-Identifier: Apache-2.0"


@pytest.mark.parametrize(
    "entry_point",
    DISTRIBUTION.entry_points,
    ids=lambda entry_point: f"{entry_point.group}:{entry_point.name}",
)
def test_an_entry_point_leads_to_something(entry_point: metadata.EntryPoint) -> None:
    found = entry_point.load()
    # A plugin of pytest is a module.
    assert inspect.ismodule(found) if entry_point.group == "pytest11" else callable(found)


def test_the_type_information_is_shipped() -> None:
    assert pathlib.Path(ironic_virt.__file__).with_name("py.typed").exists()


def required(*extras: str) -> set[str]:
    """The names of the distributions that installing with ``extras`` promises."""
    names = set()
    for line in DISTRIBUTION.requires or ():
        requirement = requirements.Requirement(line)
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in extras
        ):
            names.add(utils.canonicalize_name(requirement.name))
    return names


def imports(module: pathlib.Path) -> Iterator[str]:
    """The top level names of what a module imports, anywhere in it, from outside."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top != "ironic_virt":
                yield top


CORE = (
    *("*.py", "baremetal", "cmd/*.py", "conf/[!d]*.py", "driver", "request"),
    *("scheduler", "sharding"),
)


@pytest.mark.parametrize(
    ("extras", "rooms"),
    [
        ((), CORE),
        (("metrics",), ["metrics"]),
        (("standby",), ["standby"]),
        (
            ("compute", "metrics"),
            ["compute/*.py", "compute/db", "compute/engine", "conf/database.py"],
        ),
        (("testing",), ["testing"]),
        (("testing", "demo"), ["cmd/demo"]),
    ],
)
def test_what_is_imported_is_required(extras: tuple[str, ...], rooms: Sequence[str]) -> None:
    package = pathlib.Path(ironic_virt.__file__).parent
    modules = [
        module
        for room in rooms
        for found in package.glob(room)
        for module in (found.rglob("*.py") if found.is_dir() else [found])
    ]
    assert modules
    distributions = metadata.packages_distributions()
    promised = required(*extras)
    undeclared = {
        f"{module.relative_to(package)}: {name}"
        for module in modules
        for name in imports(module)
        if not promised & {utils.canonicalize_name(dist) for dist in distributions.get(name, ())}
    }
    assert undeclared == set()


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests/releases/constraints").glob("*.txt")), ids=lambda path: path.stem
)
def test_what_nova_operators_install_fits_the_upper_constraints(path: pathlib.Path) -> None:
    pins = re.findall(r"^([\w.-]+)===([^;\s]+)", path.read_text(), re.MULTILINE)
    allowed = {utils.canonicalize_name(name): version for name, version in pins}
    assert allowed
    extras = ("hashring", "metrics", "mysql", "standby")
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    refused = {
        str(required): allowed[name]
        for required in map(requirements.Requirement, lines)
        if (name := utils.canonicalize_name(required.name)) in allowed
        and not required.specifier.contains(allowed[name])
    }
    assert refused == {}


def test_the_hash_ring_has_an_extra_that_tests_have_too() -> None:
    # Its import is by name at run time, which the test above can't see.
    assert {requirements.Requirement(line).name for line in EXTRAS["hashring"]} == {"tooz"}
    tested = [requirements.Requirement(line) for line in EXTRAS["test"]]
    assert any(line.name == "ironic-virt" and "hashring" in line.extras for line in tested)


def test_every_file_names_its_licence() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("asks git which files are the project's; this is no git checkout")
    listed = subprocess.run(
        [git, "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    )
    # A generated file, data without comments, and the licence itself.
    exempt = re.compile(r"(^|/)LICENSE$|\.(conf\.sample|csv|json|png|svg|typed|patch)$")
    missing = [
        name
        for name in listed.stdout.split("\0")
        if name
        and not exempt.search(name)
        and (ROOT / name).is_file()
        and NOTICE not in "".join((ROOT / name).read_text().splitlines(keepends=True)[:2])
    ]
    # .gitignore says nothing that could be copied.
    assert [name for name in missing if name != ".gitignore"] == []


def test_no_page_or_message_installs_by_an_unregistered_name() -> None:
    # Whoever registers the name on PyPI would run code in nova-compute.
    by_name = re.compile(r"\bpip3? install\b[^\n]*['\" ]ironic-virt\b")
    places = [ROOT / "README.rst", *(ROOT / "doc" / "source").rglob("*.rst")]
    places += [
        path
        for directory in ("ironic_virt", "etc", "releasenotes/notes")
        for path in (ROOT / directory).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    assert [str(path) for path in places if by_name.search(path.read_text())] == []
