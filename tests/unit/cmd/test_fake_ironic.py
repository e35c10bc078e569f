# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fake-ironic`` without readers or packages; it is served over HTTP elsewhere."""

import io
import sys

import pytest

from ironic_virt.cmd import fake_ironic
from ironic_virt.testing.fake_ironic import FakeIronic


def test_a_request_is_answered_when_nobody_reads_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    fake = FakeIronic()
    fake.requests.listener = fake_ironic.log_request
    monkeypatch.setattr(sys, "stderr", Closed())
    assert fake.handle("GET", "/v1/nodes").status == 200


def test_without_its_packages_it_says_what_to_install(monkeypatch, capsys) -> None:
    for name in [name for name in sys.modules if name.startswith("ironic_virt.testing.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "werkzeug", None)
    monkeypatch.setitem(sys.modules, "werkzeug.datastructures", None)
    assert fake_ironic.main(["--help"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "pip install '.[testing]'" in err
