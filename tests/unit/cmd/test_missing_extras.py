# SPDX-License-Identifier: Apache-2.0

"""Commands in an environment that lacks the extras say what to install, and nothing else."""

import sys

import pytest

from ironic_virt.cmd import fake_ironic


def test_the_fake_ironic_names_the_package_and_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("ironic_virt.testing.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "werkzeug", None)
    monkeypatch.setitem(sys.modules, "werkzeug.datastructures", None)
    assert fake_ironic.main(["--help"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "pip install '.[testing]'" in err
