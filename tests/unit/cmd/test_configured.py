# SPDX-License-Identifier: Apache-2.0

"""Where commands read their options."""

import pathlib

import pytest

from ironic_virt.cmd import configured


@pytest.fixture
def files(tmp_path: pathlib.Path) -> dict[str, str]:
    found = {}
    for name in ("named", "environment", "default"):
        (tmp_path / name).write_text("")
        found[name] = str(tmp_path / name)
    return found


def test_a_file_that_is_named_counts_then_the_environment_then_the_default(
    files: dict[str, str],
) -> None:
    environ = {configured.ENVIRONMENT: files["environment"]}
    default = files["default"]
    both = [files["named"], files["default"]]
    assert configured.config_files(both, environ, default) == both
    assert configured.config_files([], environ, default) == [files["environment"]]
    assert configured.config_files([], {configured.ENVIRONMENT: ""}, default) == [default]
    assert configured.config_files([], {}, "/nowhere/at/all") == []


@pytest.mark.parametrize("named", [True, False])
def test_a_file_that_was_asked_for_must_be_there(tmp_path: pathlib.Path, named: bool) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"missing: No such file"):
        configured.config_files(
            [missing] if named else [], {} if named else {configured.ENVIRONMENT: missing}, ""
        )
