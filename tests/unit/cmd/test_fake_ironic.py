# SPDX-License-Identifier: Apache-2.0

"""Arguments of ``ironic-virt-fake-ironic``; serving is tested over HTTP elsewhere."""

import io
import sys

import pytest

from ironic_virt.cmd import fake_ironic
from ironic_virt.testing.fake_ironic import FakeIronic


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        fake_ironic.main(["--help"])
    assert exited.value.code == 0
    text = capsys.readouterr().out
    assert "examples:" in text
    assert "--deploy-time 5,30" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--deploy-time", "soon"], "'soon' is neither seconds such as 5 nor a range"),
        (["--deploy-time", "30,5"], "'30,5' is neither seconds such as 5 nor a range"),
        (["--max-version", "new"], "'new' is not an API version such as 1.81"),
        (["--min-version", "1.90", "--max-version", "1.80"], "it is above --max-version"),
        (["--nodes", "-3"], "'-3' is not a number from 0"),
        (["--port", "70000"], "'70000' is not a port"),
        (["--auth", "magic"], "'magic' is neither none nor token"),
        (["--threads", "0"], "'0' is not a number from 1"),
        (["--surprise"], "unknown option '--surprise'"),
    ],
)
def test_bad_arguments_exit_2_and_say_why(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        fake_ironic.main(arguments)
    assert exited.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_request_is_answered_when_nobody_reads_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    fake = FakeIronic()
    fake.requests.listener = fake_ironic.log_request
    monkeypatch.setattr(sys, "stderr", Closed())
    assert fake.handle("GET", "/v1/nodes").status == 200
