# SPDX-License-Identifier: Apache-2.0

"""``--boot-volume`` and ``--volume``: files that say how to connect to volumes."""

from __future__ import annotations

import argparse
from typing import TextIO

from ironic_virt import virt
from ironic_virt.cmd import files
from ironic_virt.compute import volumes
from ironic_virt.compute.errors import InvalidRequest

BOOT_OPTION = "--boot-volume"
_OPTION = "--volume"


def add_options(parser: argparse.ArgumentParser, system: argparse._MutuallyExclusiveGroup) -> None:
    """Add them.

    :param system: the group of what a server may boot from.
    """
    system.add_argument(
        BOOT_OPTION,
        metavar="<file>",
        help="Boot from a volume: a JSON file that says how to connect to it, as Cinder answers;"
        " '-' is standard input.",
    )
    group = parser.add_argument_group("the volumes")
    group.add_argument(
        _OPTION,
        action="append",
        default=[],
        dest="volumes",
        metavar="<file>",
        help="A volume for data, by a file of the same kind (may be repeated).",
    )


def given(
    parsed_args: argparse.Namespace, stdin: TextIO | None = None
) -> tuple[virt.BlockDevice, ...]:
    """The volumes that are asked for, in the order of their boot indexes.

    :param stdin: the process's own by default.
    :raises InvalidRequest: there can't be such ones, or their files can't be read.
    """
    boot: str | None = parsed_args.boot_volume
    others: list[str] = parsed_args.volumes
    if [boot, *others].count(files.STDIN) > 1:
        raise InvalidRequest(f"{_OPTION} -: standard input is only one file")
    return volumes.block_devices(
        None if boot is None else _described(BOOT_OPTION, boot, stdin),
        [_described(_OPTION, file, stdin) for file in others],
    )


def _described(option: str, file: str, stdin: TextIO | None) -> volumes.Description:
    return volumes.Description(f"{option} {file}", files.text(file, option, stdin))
