# SPDX-License-Identifier: Apache-2.0

"""What the demo says when it can't have an Ironic."""

import io
import sys

import pytest

from ironic_virt import exceptions, testing
from ironic_virt.cmd.demo import run
from ironic_virt.cmd.demo.commands import Display


def test_without_the_extras_the_fake_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(testing, "fake_ironic", raising=False)
    monkeypatch.setitem(sys.modules, "ironic_virt.testing.fake_ironic", None)
    with (
        pytest.raises(exceptions.ExtrasMissing, match=r"pip install '\.\[demo\]'"),
        run.fake(3, 1.0, Display(io.StringIO())),
    ):
        pass
