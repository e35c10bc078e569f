# SPDX-License-Identifier: Apache-2.0

"""Each line of WARNING or above has a code, and each code a place in the documentation."""

import pathlib
import runpy
import sys
import types

import pytest

pytest.importorskip("sphinx")

EXTENSION = pathlib.Path(__file__).parents[2] / "doc" / "extensions" / "log_messages.py"
sys.path.insert(0, str(EXTENSION.parent))
log_messages = types.SimpleNamespace(**runpy.run_path(str(EXTENSION)))


def test_each_line_has_a_code() -> None:
    """As the first thing in the text, which is a literal."""
    assert [(where, text) for where, _, code, text in log_messages.lines() if not code] == []


def test_the_documentation_explains_each_code_and_no_other() -> None:
    meanings = log_messages.meanings()
    assert set(meanings) == {code for _, _, code, _ in log_messages.lines()}
    by_subject = log_messages.subjects().values()
    assert sorted(meanings) == sorted(code for codes in by_subject for code in codes)
    for code, row in meanings.items():
        assert row.keys() == {"means", "do"}, code
        assert all(text.endswith(".") for text in row.values()), code
