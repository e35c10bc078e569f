# SPDX-License-Identifier: Apache-2.0

"""``tools/words.py`` fails when a count of words is above its maximum."""

import pathlib
import runpy
import types

import pytest

TOOL = pathlib.Path(__file__).parents[2] / "tools" / "words.py"
words = types.SimpleNamespace(**runpy.run_path(str(TOOL)))
SETTINGS = "[tool.words]\nmost = {one-word-functions = 100}\nshared = {cliff = ['Create']}\n"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("doc/a.rst", "There is no doubt: it is no\nlonger so.", None),
        ("doc/a.rst", "It has one of\nits own.", "tics"),
        ("Makefile", "all: ## Mend it", "tics"),
        ("ironic_virt/a.py", "def _a_b():\n    raise E(f'{x} is told')", "tics"),
        ("ironic_virt/a.py", "def a_b():\n    'It is told.'", "tics-in-code"),
        ("tests/a.py", "x = 1  # It is told.", "tics-in-code"),
        ("tests/a.py", "def a():\n    'See :func:`b`.'", "references"),
        ("tests/a.py", "def a():\n    'See that it ends.'", None),
        ("ironic_virt/a.py", "for found in ():\n    pass", "vague-locals"),
        ("ironic_virt/a.py", "def run(): ...", "one-word-outside"),
        ("ironic_virt/a.py", "class A:\n    def run(self): ...", None),
        ("ironic_virt/b/old.py", "", "shared-names"),
        ("ironic_virt/a.py", "class Create: ...\nclass Create: ...", None),
        ("tests/a.py", f"def test_{'a' * 56}(): ...", "long-tests"),
        ("doc/a.rst", "Line.\n" * 201, "long-pages"),
    ],
)
def test_what_is_above_its_maximum_fails(name, text, kind, tmp_path, capsys) -> None:
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    for path, content in (("ironic_virt/old.py", "def a_b(): ...\n"), (name, text)):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    assert words.main([str(tmp_path)]) == int(bool(kind))
    verdict = capsys.readouterr().out.splitlines()[-1]
    assert verdict == (f"Over its maximum: {kind}; see --list" if kind else "All allowed")
    assert words.main(["--report", str(tmp_path)]) == 0
