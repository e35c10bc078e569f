# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt flavor create|list|show|delete``."""

from __future__ import annotations

import argparse
import re
from typing import Any

from ironic_virt import virt
from ironic_virt.cmd import configured, output
from ironic_virt.cmd.commands import Row, argument, row, several

_COLUMNS = output.named(
    *("Name", "RAM=memory_mb", "Disk=root_gb", "Ephemeral=ephemeral_gb", "Swap", "VCPUs"),
    "Properties=extra_specs",
)
_SHOW_COLUMNS = {name.lower(): cell for name, cell in _COLUMNS.items()}
_RESOURCES = re.compile(r"resources?([0-9_-][a-zA-Z0-9_-]*)?", re.IGNORECASE)


def _size_option(spec: str, what: str) -> Row:
    return argument(spec, f"{what} (default: %(default)s).", default=0)


class Create(output.ShowOne):
    """Create a flavor: the properties that a node must have for its servers.

    A size of 0 is ignored; with a resource class, sizes seldom matter.
    """

    examples = """\
flavor create gold --resource-class baremetal-gold
flavor create gpu --resource-class gold --trait CUSTOM_GPU
flavor create sized --ram 65536 --vcpus 16 --disk 400
"""
    makes_records = True
    columns = _SHOW_COLUMNS
    takes = (
        argument("name <flavor-name>", "Name of the flavor."),
        _size_option("--ram <size-mb>", "Memory in MiB"),
        _size_option("--disk <size-gb>", "Disk in GiB"),
        _size_option("--ephemeral <size-gb>", "Ephemeral disk in GiB"),
        _size_option("--swap <size-mb>", "Swap in MiB"),
        _size_option("--vcpus <vcpus>", "Cores"),
        argument(
            "--resource-class <class>",
            "The nodes' resource class in Ironic; the same as --property"
            " resources:CUSTOM_<CLASS>=1.",
        ),
        several(
            *("--trait <trait>", "traits"),
            "A trait that nodes must have; the same as --property trait:<TRAIT>=required",
        ),
        several(*("--property <key=value>", "properties"), "An extra spec, as in Nova's flavors"),
    )

    def check(self, args: argparse.Namespace) -> None:
        from ironic_virt.compute.api import check_flavor

        args.flavor = virt.Flavor(
            name=args.name,
            vcpus=args.vcpus,
            memory_mb=args.ram,
            root_gb=args.disk,
            ephemeral_gb=args.ephemeral,
            swap=args.swap,
            extra_specs=_extra_specs(args),
        )
        check_flavor(args.flavor)
        for name, value in args.properties.items():
            if args.flavor.extra_specs[name] != value:
                self.refuse(f"--property {name}={value} contradicts --trait or --resource-class")
            if reason := _objection(name, value):
                self.refuse(f"--property {name}={value}: {reason}")

    def act(self, args: argparse.Namespace) -> Any:
        self.db.flavors.create(args.flavor)
        return args.flavor


List = row(
    *(output.Lister, "List flavors."),
    columns=_COLUMNS,
    act=lambda command, args: command.db.flavors.list(),
)
Show = row(
    *(output.ShowOne, "Show a flavor.", argument("flavor <flavor>", "Name of the flavor.")),
    columns=_SHOW_COLUMNS,
    act=lambda command, args: command.db.flavors.get(args.flavor),
)
Delete = row(
    *(configured.Each, "Delete flavors; existing servers are not affected."),
    argument("names <flavor>", "Name of a flavor; may be repeated.", nargs="+"),
    do=lambda command, name: command.db.flavors.delete(name),
)


def _objection(name: str, value: str) -> str | None:
    """Why an extra spec asks for nothing, so that any node would do; ``None``: it does."""
    import os_resource_classes

    prefix, colon, resource_class = name.partition(":")
    match = _RESOURCES.fullmatch(prefix)
    if match is None or not resource_class:
        return "it names nothing" if colon and not resource_class else None
    meant = os_resource_classes.normalize_name(resource_class).removeprefix("CUSTOM_")
    if meant not in os_resource_classes.STANDARDS and not meant.startswith("CUSTOM_"):
        meant = f"CUSTOM_{meant}"
    if name != (meant := f"resources{match[1] or ''}:{meant}"):
        return f"no node has such a resource; did you mean {meant}?"
    return "it asks for none" if ":CUSTOM_" in name and int(value) == 0 else None


def _extra_specs(args: argparse.Namespace) -> dict[str, str]:
    from ironic_virt.request.spec import placement_class

    specs = {f"trait:{trait}": "required" for trait in args.traits}
    if args.resource_class is not None:
        specs[f"resources:{placement_class(args.resource_class)}"] = "1"
    return {**args.properties, **specs}
