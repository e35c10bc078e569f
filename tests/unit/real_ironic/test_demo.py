# SPDX-License-Identifier: Apache-2.0

"""What the demo says when it can't have a real Ironic."""

import io

import pytest

from ironic_virt.cmd.demo.commands import DemoFailed
from ironic_virt.cmd.progress import Display
from tools import demo, real_ironic


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
        demo.real(3, 1.0, display),
    ):
        pass
    assert str(caught.value) == said
