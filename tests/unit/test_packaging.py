# SPDX-License-Identifier: Apache-2.0

"""What the installed distribution promises: entry points, data, licences."""

import pathlib
import re
import shutil
import subprocess
from importlib import metadata

import pytest

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
    assert callable(entry_point.load())


def test_the_type_information_is_shipped() -> None:
    assert pathlib.Path(ironic_virt.__file__).with_name("py.typed").exists()


def test_every_file_names_its_licence() -> None:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("asks git which files are the project's; this is no git checkout")
    listed = subprocess.run(
        [git, "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    )
    # A generated file, data without comments, and the licence itself.
    exempt = re.compile(r"(^|/)LICENSE$|\.(conf\.sample|json|png|svg|typed|patch)$")
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
