# SPDX-License-Identifier: Apache-2.0

"""Entry points of a project that somebody else has installed."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from stevedore import extension


def install(
    directory: Path, monkeypatch: pytest.MonkeyPatch, namespace: str, points: Mapping[str, str]
) -> None:
    """Put a distribution on the path, as pip would have installed it.

    :param directory: an empty one; modules in it can be imported, too.
    :param points: ``module:Class`` by name.
    """
    info = directory / f"{directory.name}-1.0.dist-info"
    info.mkdir(parents=True)
    info.joinpath("METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {directory.name}\nVersion: 1.0\n"
    )
    lines = [f"[{namespace}]", *(f"{name} = {value}" for name, value in points.items())]
    info.joinpath("entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(directory))
    # stevedore remembers what was installed, in the process and in files.
    monkeypatch.setattr(extension.ExtensionManager, "ENTRY_POINT_CACHE", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(directory / "cache"))
