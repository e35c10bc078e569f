# SPDX-License-Identifier: Apache-2.0

"""What the demo says when it can't have an Ironic."""

import io
import pathlib
import sys

import pytest

from ironic_virt import exceptions, testing
from ironic_virt.cmd.demo import servers
from ironic_virt.cmd.demo.commands import DemoFailed
from ironic_virt.cmd.progress import Display
from tools import real_ironic


def test_without_the_extras_the_fake_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(testing, "fake_ironic", raising=False)
    monkeypatch.setitem(sys.modules, "ironic_virt.testing.fake_ironic", None)
    with (
        pytest.raises(exceptions.ExtrasMissing, match=r"pip install '\.\[demo\]'"),
        servers.fake(3, 1.0),
    ):
        pass


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            real_ironic.EnvironmentBuildError("Can't install 39.0.0. Its output:", "a\nb\n"),
            "Can't install 39.0.0: b (-v shows more)",
        ),
        (
            real_ironic.StartError("ironic-dbsync failed:", "a\ndisk full"),
            "ironic-dbsync failed: disk full (-v shows more)",
        ),
        (real_ironic.DatabaseError("No database. Start one."), "No database. Start one."),
    ],
)
def test_an_ironic_that_can_not_be_had_is_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(real_ironic, "ensure_environment", fail)
    display = Display(io.StringIO())
    with (
        pytest.raises(DemoFailed) as caught,
        servers.real(3, 1.0, display),
    ):
        pass
    assert str(caught.value) == said


def test_an_installed_package_says_where_a_real_ironic_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(servers, "CHECKOUT", tmp_path)
    with (
        pytest.raises(DemoFailed, match="in a checkout run make demo IRONIC=real"),
        servers.real(3, 1.0, Display(io.StringIO())),
    ):
        pass
