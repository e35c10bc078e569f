# SPDX-License-Identifier: Apache-2.0

"""The bar for many things that are done one after the other."""

from __future__ import annotations

import io

from ironic_virt.compute.progress import bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_gets_no_bar() -> None:
    stream = io.StringIO()
    assert list(bar.shown([1, 2, 3], "Counting", stream)) == [1, 2, 3]
    assert stream.getvalue() == ""


def test_a_terminal_shows_how_many_are_done() -> None:
    stream = Terminal()
    assert list(bar.shown([1, 2, 3], "Counting", stream)) == [1, 2, 3]
    assert "Counting" in stream.getvalue()
    assert "3/3" in stream.getvalue()
