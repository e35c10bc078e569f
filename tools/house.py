# SPDX-License-Identifier: Apache-2.0

"""Print how large the rooms are, and fail when one has grown over its budget.

    python tools/house.py [--report] [DIRECTORY]

The budgets are in pyproject.toml, ``[tool.house]``.  A room that is larger than its aim may not
grow: its budget is what it has.  With ``--report`` the exit status is 0 in any case.  Lines are
those of the files, blank ones included.  A feature is the modules that exist for it alone.  A
verb touches the files of ``compute/`` and ``cmd/``
whose code names it, and those of the whole product are counted as well; comments and docstrings
don't count.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = "ironic_virt"
BESIDE = "testing"
"""Shipped for tests: no part of the product, and its modules may be of any length."""
VERB_ROOMS = ("compute", "cmd")
_SHOWN = 8
_SUMS = ("the product", "tests")


class Module(NamedTuple):
    """A module of the product, or of what is shipped with it.

    :ivar path: below the package.
    """

    path: Path
    lines: int
    code: str

    @property
    def room(self) -> str:
        """The room that it is in, itself if it is in none."""
        return self.path.parts[0]

    @property
    def inner_room(self) -> str | None:
        """The room inside the room, if it is in one."""
        return "/".join(self.path.parts[:2]) if len(self.path.parts) > 2 else None


class House(NamedTuple):
    """What was counted.

    :ivar others: lines of the directories next to the package.
    """

    modules: list[Module]
    others: dict[str, int]

    @property
    def product(self) -> list[Module]:
        """The modules without what is shipped for tests."""
        return [module for module in self.modules if module.room != BESIDE]

    def files_of(self, pattern: str, except_for: Sequence[str]) -> list[Path]:
        """The files of the product whose code has a text.

        :param except_for: patterns of files that don't count.
        """
        text = re.compile(pattern, re.IGNORECASE)
        return [
            module.path
            for module in self.product
            if not any(fnmatch.fnmatch(module.path.as_posix(), one) for one in except_for)
            and text.search(module.code)
        ]

    def files_of_service(self, pattern: str, except_for: Sequence[str]) -> list[Path]:
        """Return the files of the reference service and its commands that match."""
        paths = self.files_of(pattern, except_for)
        return [path for path in paths if path.parts[0] in VERB_ROOMS]


def house(root: Path) -> House:
    """Count the modules of a checkout."""
    modules = []
    for path in sorted((root / PACKAGE).rglob("*.py")):
        text = path.read_text()
        modules.append(Module(path.relative_to(root / PACKAGE), _lines(text), _code(text)))
    others = {
        name: sum(_lines(path.read_text()) for path in (root / name).rglob("*.py"))
        for name in ("tests", "tools", "benchmarks")
    }
    return House(modules, others)


def _lines(text: str) -> int:
    return len(text.splitlines())


def _code(text: str) -> str:
    """A module without comments and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [line for line in node.body if not _is_text(line)]
    return ast.unparse(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def over_in_sum(found: House, budgets: dict[str, Any]) -> list[str]:
    """The rooms that are over their budgets, in sentences."""
    said = []
    for room, aim in budgets.get("aims", {}).items():
        label = room if room in _SUMS else f"{room}/"
        said += _at_most(label, size_of(found, room), budgets.get("grown", {}).get(room, aim))
    return said


def size_of(found: House, room: str) -> int:
    """The lines of a room, of ``the product`` or of ``tests``."""
    if room == "tests":
        return found.others[room]
    is_all = room in _SUMS
    return sum(
        module.lines
        for module in found.product
        if is_all or module.path.as_posix().startswith(f"{room}/")
    )


def features(found: House, budgets: dict[str, Any]) -> list[tuple[str, int, int]]:
    """The name, the lines and the budget of each feature.

    :raises KeyError: a module that it names is not there.
    """
    lines = {module.path.as_posix(): module.lines for module in found.product}
    return [
        (feature["name"], sum(lines[name] for name in feature["modules"]), feature["most"])
        for feature in budgets.get("features", ())
    ]


def _at_most(what: str, size: int, budget: int, unit: str = "lines") -> list[str]:
    return [f"{what}: {size:,} {unit}, {budget:,} are allowed"] if size > budget else []


def complaints(found: House, budgets: dict[str, Any]) -> list[str]:
    """The modules and verbs that are over their budgets, in sentences."""
    said = []
    for feature, size, most in features(found, budgets):
        said += _at_most(feature, size, most)
    reasons = budgets.get("small", {})
    used: set[str] = set()
    for module in found.product:
        name = module.path.as_posix()
        said += _at_most(name, module.lines, budgets["largest_module"])
        why = [pattern for pattern in reasons if fnmatch.fnmatch(name, pattern)]
        is_small = module.lines < budgets["smallest_module"] and module.path.stem != "__init__"
        if is_small and not why:
            said.append(
                f"{name}: {module.lines} lines. Let it join its owner, or say in "
                "[tool.house.small] why it stands alone"
            )
        used.update(pattern for pattern in why if is_small)
    said += [f"{name} in [tool.house.small] names no small module" for name in {*reasons} - used]
    for verb, pattern in budgets.get("verbs", {}).items():
        touched = len(found.files_of_service(pattern, budgets.get("verb_except", ())))
        said += _at_most(f"the verb {verb}", touched, budgets["verb"], "files")
    return said


def _sum(modules: list[Module]) -> int:
    return sum(module.lines for module in modules)


def table(found: House, budgets: dict[str, Any]) -> list[str]:
    """The sizes, as lines of text."""
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for module in found.modules:
        for room in filter(None, (module.room, module.inner_room)):
            lines[room] += module.lines
            files[room] += 1
    shown = [f"{'room':<28}{'modules':>8}{'lines':>8}"]
    for room in sorted(lines):
        name = room.rpartition("/")
        label = f"  {name[2]}/" if name[0] else room if room.endswith(".py") else f"{room}/"
        shown.append(f"{label:<28}{files[room]:>8}{lines[room]:>8}")
    shown += [
        f"{'the product':<28}{len(found.product):>8}{_sum(found.product):>8}",
        *(f"{f'{name}/ (beside)':<28}{'':>8}{size:>8}" for name, size in found.others.items()),
        "",
    ]
    shown += [f"{name}: {size}, {most} at most" for name, size, most in features(found, budgets)]
    by_size = sorted(found.product, key=lambda module: module.lines)
    small = [module for module in by_size if module.path.stem != "__init__"]
    for what, some in (("largest", by_size[: -_SHOWN - 1 : -1]), ("smallest", small[:_SHOWN])):
        shown.append(f"{what}: " + ", ".join(f"{one.path} {one.lines}" for one in some))
    shown.append("")
    for verb, pattern in budgets.get("verbs", {}).items():
        except_for = budgets.get("verb_except", ())
        paths = found.files_of_service(pattern, except_for)
        total = len(found.files_of(pattern, except_for))
        names = ", ".join(map(str, paths))
        shown.append(f"{verb}: {len(paths)} files, {total} of the product: {names}")
    above = [
        f"{name} {size:,} ({aim:,})"
        for name, aim in budgets.get("aims", {}).items()
        if (size := size_of(found, name)) > aim
    ]
    return [*shown, "", f"above their aims: {', '.join(above) or 'none'}"]


def main(argv: list[str] | None = None) -> int:
    """Print the table; return 1 if something is over its budget."""
    parser = argparse.ArgumentParser(description="How large are the rooms?")
    parser.add_argument("--report", action="store_true", help="exit with 0 in any case")
    parser.add_argument("directory", nargs="?", type=Path, default=Path(__file__).parents[1])
    arguments = parser.parse_args(argv)
    text = (arguments.directory / "pyproject.toml").read_text()
    budgets = tomllib.loads(text)["tool"]["house"]
    found = house(arguments.directory)
    print("\n".join(table(found, budgets)))
    said = [*over_in_sum(found, budgets), *complaints(found, budgets)]
    print(*("", "Over budget:", *said) if said else ("", "All within the budgets"), sep="\n")
    return int(bool(said) and not arguments.report)


if __name__ == "__main__":
    sys.exit(main())
