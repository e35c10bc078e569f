# SPDX-License-Identifier: Apache-2.0

"""Commands that tests have forked behave as commands that were started."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.preloading import Preloaded


def written(stream: Any) -> str:
    stream.seek(0)
    return str(stream.read())


@pytest.fixture(scope="module")
def preloaded() -> Iterator[Preloaded]:
    with Preloaded() as preloaded:
        yield preloaded


def test_a_command_is_a_process_like_any_other(preloaded, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "it.conf").write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    said = []
    for name in ("it.conf", "not.conf"):
        with (tmp_path / "out").open("w+") as out, (tmp_path / "err").open("w+") as err:
            argv, environ = ("server", "list", "-f", "json"), {"IRONIC_VIRT_CONFIG_FILE": name}
            process = preloaded.start(argv, stdout=out, stderr=err, environ=environ)
            code = process.wait()
            assert process.poll() == code
            said.append((code, written(out), written(err)))
    assert said[0][:2] == (2, "")
    assert f"sqlite:///{tmp_path}/ironic-virt.sqlite has no tables" in said[0][2]
    assert said[1][:2] == (2, "")
    assert "not.conf: No such file" in said[1][2]
