# SPDX-License-Identifier: Apache-2.0

"""The command line of ``ironic-virt demo``."""

import pytest

from ironic_virt.cmd import shell
from ironic_virt.cmd.demo import run as demo


def run(*argv: str) -> int | str:
    """The exit code of ``ironic-virt demo``, however it ends."""
    try:
        return shell.Shell().run(["demo", *argv])
    except SystemExit as end:
        return end.code or 0


NAMES = ("nodes", "servers", "deploy_time", "node_selection", "verbose")


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ("", (5, 3, 2.0, "scheduler", False)),
        (
            "--nodes 9 --servers 8 --deploy-time 1.5 --node-selection ironic",
            (9, 8, 1.5, "ironic", False),
        ),
    ],
)
def test_what_is_said_arrives_and_the_rest_has_a_default(monkeypatch, options, values) -> None:
    settings: list[dict[str, object]] = []
    monkeypatch.setattr(demo, "run", lambda args, *_ironic: settings.append(vars(args)))
    assert run(*options.split()) == 0
    assert settings == [dict(zip(NAMES, values, strict=True))]
