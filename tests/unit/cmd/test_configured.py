# SPDX-License-Identifier: Apache-2.0

"""Where commands read their options."""

import pathlib

from ironic_virt.cmd import configured


def test_a_named_file_counts_then_the_environment_or_the_default(tmp_path: pathlib.Path) -> None:
    named, other, default = (str(tmp_path / name) for name in ("named", "other", "default"))
    for path in (named, other, default):
        pathlib.Path(path).touch()
    environ = {configured.ENVIRONMENT: other}
    assert configured.config_files([named, default], environ, default) == [named, default]
    assert configured.config_files([], environ, default) == [other]
    assert configured.config_files([], {configured.ENVIRONMENT: ""}, default) == [default]
    assert configured.config_files([], {}, "/nowhere/at/all") == []
