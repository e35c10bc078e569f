# SPDX-License-Identifier: Apache-2.0

"""``tools/house.py`` says which room has grown over its budget."""

import pathlib
import runpy
import types

import pytest

house = types.SimpleNamespace(
    **runpy.run_path(str(pathlib.Path(__file__).parents[2] / "tools" / "house.py"))
)

BUDGETS = """
[tool.house]
largest_module = 20
smallest_module = 5
verb = 1
verb_except = ["cmd/demo/*"]
features = [{name = "verbs", most = 12, modules = ["compute/verbs.py"]}]
[tool.house.aims]
"the product" = 60
tests = 10
compute = 20
"compute/db" = 12
[tool.house.grown]
compute = 30
[tool.house.small]
"conf/small.py" = "a group of options"
"filters/*" = "a filter a module"
[tool.house.verbs]
rescue = "rescu"
"""
FILES = {
    "ironic_virt/__init__.py": 1,
    "ironic_virt/compute/verbs.py": 12,
    "ironic_virt/compute/db/models.py": 12,
    "ironic_virt/conf/small.py": 2,
    "ironic_virt/filters/disk.py": 3,
    "ironic_virt/testing/large.py": 500,
    "tests/test_it.py": 10,
}


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A small checkout within its budgets."""
    (tmp_path / "pyproject.toml").write_text(BUDGETS)
    for name, lines in FILES.items():
        write(tmp_path, name, "x = 1\n" * lines)
    return tmp_path


def write(root: pathlib.Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        ("ironic_virt/cmd/a.py", 21, "cmd/a.py: 21 lines, 20 are allowed"),
        ("ironic_virt/cmd/a.py", 4, "cmd/a.py: 4 lines."),
        ("ironic_virt/conf/small.py", 5, "conf/small.py in [tool.house.small] names no"),
        ("ironic_virt/compute/b.py", 7, "compute/: 31 lines, 30 are allowed"),
        ("ironic_virt/compute/db/b.py", 6, "compute/db/: 18 lines"),
        ("ironic_virt/compute/verbs.py", 13, "verbs: 13 lines, 12 are allowed"),
        ("tests/test_b.py", 1, "tests: 11 lines, 10 are allowed"),
    ],
)
def test_what_is_over_its_budget_is_named(root, name: str, lines: int, said: str, capsys) -> None:
    assert house.main([str(root)]) == 0
    write(root, name, "x = 1\n" * lines)
    assert house.main([str(root)]) == 1
    out = capsys.readouterr().out
    assert out.partition("Over budget:\n")[2].startswith(said)
    assert house.main(["--report", str(root)]) == 0
