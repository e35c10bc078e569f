# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-status upgrade check`` on the host of a reference compute service."""

import sqlite3
from pathlib import Path

import pytest

from ironic_virt.cmd import status
from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests import upgrade_checks


@pytest.fixture
def ironic(fake_ironic_server: FakeIronicServer) -> str:
    return fake_ironic_server.url


@pytest.mark.parametrize(("options", "code", "check", "words"), upgrade_checks.CASES)
def test_what_the_host_is_told(ironic, tmp_path, capsys, options, code, check, words) -> None:
    path = tmp_path / "compute.conf"
    path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    found, results = upgrade_checks.checked(
        path, "ironic", capsys, **{"endpoint_override": ironic, **options}
    )
    assert found == code, results
    assert words in upgrade_checks.said(results, check)
    assert results["Database"] == ""
    assert sorted(tmp_path.iterdir()) == [path], "nothing is left behind"


def test_records_of_another_version_are_not_ready(ironic, tmp_path, capsys) -> None:
    path = tmp_path / "compute.conf"
    path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    with sqlite3.connect(tmp_path / "ironic-virt.sqlite") as file:
        file.execute("CREATE TABLE schema_version (version INTEGER)")
        file.execute("INSERT INTO schema_version VALUES (9)")
    code, results = upgrade_checks.checked(path, "ironic", capsys, endpoint_override=ironic)
    assert code == 2
    assert "has tables of version 9" in results["Database"]


def test_the_file_that_the_environment_names_is_read(monkeypatch, tmp_path, capsys) -> None:
    file = tmp_path / "none.conf"
    monkeypatch.setenv("IRONIC_VIRT_CONFIG_FILE", str(file))
    assert status.main(["upgrade", "check"]) == 255
    assert f"{file}: No such file or directory" in capsys.readouterr().err


def test_a_file_that_can_not_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main(["--config-file", str(tmp_path / "none"), "upgrade", "check"]) == 255
    assert "can't be read: Failed to find some config files" in capsys.readouterr().err
