# SPDX-License-Identifier: Apache-2.0

"""See that a bill of materials names a package and everything that the package needs.

    python .ci/check_sbom.py FILE PYTHON

PYTHON is that of the environment of which FILE was made.  What it has must be in FILE in the
same version, and nothing else may.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = "ironic-virt"
LIST = """
import json
from importlib import metadata
print(json.dumps({
    "installed": [[one.name, one.version] for one in metadata.distributions()],
    "needed": metadata.requires(%r),
}))
"""


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def core(requirements: list[str]) -> set[str]:
    """The names in those of a package's requirements that belong to no extra."""
    return {
        canonical(found[0])
        for line in requirements
        if "extra ==" not in line and (found := re.match(r"[\w.-]+", line))
    }


def complaints(bill: dict, installed: dict[str, str], needed: set[str]) -> list[str]:
    """What is wrong with a bill, in sentences.

    :param installed: versions by name.
    :param needed: names that must be in it.
    """
    listed = {canonical(one["name"]): one["version"] for one in bill["components"]}
    found = [
        f"{name} {version} is installed, and the bill says {listed.get(name)}"
        for name, version in sorted(installed.items())
        if listed.get(name) != version
    ]
    found += [f"{name} is listed, and not installed" for name in sorted({*listed} - {*installed})]
    found += [f"{name} is missing" for name in sorted({PACKAGE, *needed} - {*listed})]
    if re.search(r"file://|/home/|/tmp/", json.dumps(bill)):
        found.append("it has a path of the machine on which it was made")
    return found


def main() -> str | None:
    """Check a file; the text that the process ends with, if it is not good."""
    path, python = sys.argv[1:]
    asked = subprocess.run(
        [python, "-c", LIST % PACKAGE], capture_output=True, text=True, check=True
    )
    answer = json.loads(asked.stdout)
    installed = {canonical(name): version for name, version in answer["installed"]}
    needed = core(answer["needed"])
    found = complaints(json.loads(Path(path).read_text()), installed, needed)
    if found:
        return "\n".join([f"{path}:", *found])
    sys.stdout.write(f"{path} names {PACKAGE}, its {len(needed)} dependencies and theirs\n")
    return None


if __name__ == "__main__":
    sys.exit(main())
