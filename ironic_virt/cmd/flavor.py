# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt flavor create|list|show|delete``."""

from __future__ import annotations

import argparse
import re
from operator import attrgetter
from typing import Any

from ironic_virt import exceptions, virt
from ironic_virt.cmd import arguments, configured, output
from ironic_virt.cmd.commands import Row, argument
from ironic_virt.cmd.output import Cells

_COLUMNS: Cells = {
    "Name": attrgetter("name"),
    "RAM": attrgetter("memory_mb"),
    "Disk": attrgetter("root_gb"),
    "Ephemeral": attrgetter("ephemeral_gb"),
    "Swap": attrgetter("swap"),
    "VCPUs": attrgetter("vcpus"),
    "Properties": lambda flavor: output.Json(dict(flavor.extra_specs)),
}
_RESOURCES = re.compile(r"resources?([0-9_-][a-zA-Z0-9_-]*)?", re.IGNORECASE)
_SHOW_COLUMNS: Cells = {name.lower(): cell for name, cell in _COLUMNS.items()}


def _size(option: str, unit: str, what: str) -> Row:
    return argument(
        option,
        type=arguments.count,
        default=0,
        metavar=f"<{unit}>",
        help=f"{what} (default: %(default)s).",
    )


class Create(output.ShowOne):
    """Create a flavor: what a node must have for servers of it.

    Sizes that are 0 are not looked at; with the resource class given, they seldom
    matter.
    """

    epilog = """\
examples:
  ironic-virt flavor create gold --resource-class baremetal-gold
  ironic-virt flavor create gpu --resource-class gold --trait CUSTOM_GPU
  ironic-virt flavor create sized --ram 65536 --vcpus 16 --disk 400
"""
    makes_records = True

    columns = _SHOW_COLUMNS
    takes = (
        argument("name", metavar="<flavor-name>", type=arguments.name, help="What to call it."),
        _size("--ram", "size-mb", "Memory in MiB"),
        _size("--disk", "size-gb", "Disk in GiB"),
        _size("--ephemeral", "size-gb", "Further disk, in GiB"),
        _size("--swap", "size-mb", "Swap in MiB"),
        _size("--vcpus", "vcpus", "Cores"),
        argument(
            "--resource-class",
            metavar="<class>",
            type=arguments.name,
            help="The nodes' resource class in Ironic;"
            " the same as --property resources:CUSTOM_<CLASS>=1.",
        ),
        argument(
            "--trait",
            action="append",
            default=[],
            dest="traits",
            metavar="<trait>",
            type=arguments.name,
            help="A trait that nodes must have; the same as --property trait:<TRAIT>=required"
            " (may be repeated).",
        ),
        argument(
            "--property",
            action=arguments.KeyValue,
            default={},
            dest="properties",
            metavar="<key=value>",
            help="An extra spec, as in Nova's flavors (may be repeated).",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Create a flavor."""
        flavor = virt.Flavor(
            name=parsed_args.name,
            vcpus=parsed_args.vcpus,
            memory_mb=parsed_args.ram,
            root_gb=parsed_args.disk,
            ephemeral_gb=parsed_args.ephemeral,
            swap=parsed_args.swap,
            extra_specs=_extra_specs(parsed_args),
        )
        self._check(flavor)
        with self.records(parsed_args) as database:
            database.flavors.create(flavor)
        return output.one(_SHOW_COLUMNS, flavor)

    def _check(self, flavor: virt.Flavor) -> None:
        from ironic_virt.compute.api import check_flavor

        try:
            check_flavor(flavor)
        except exceptions.InvalidExtraSpec as error:
            self.refuse(str(error))
        for name in flavor.extra_specs:
            if (meant := _meant(name)) != name:
                # It would ask for nothing, and any hardware would do.
                self.refuse(f"--property {name}: no node has such a resource; is {meant} meant?")


class List(output.Lister):
    """List flavors."""

    columns = _COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List flavors."""
        with self.records(parsed_args) as database:
            return output.table(_COLUMNS, database.flavors.list())


class Show(output.ShowOne):
    """Show a flavor."""

    columns = _SHOW_COLUMNS
    takes = (argument("flavor", metavar="<flavor>", help="Its name."),)

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Show a flavor."""
        with self.records(parsed_args) as database:
            return output.one(_SHOW_COLUMNS, database.flavors.get(parsed_args.flavor))


class Delete(configured.Configured):
    """Delete flavors; servers of them are left alone."""

    takes = (argument("flavors", metavar="<flavor>", nargs="+", help="Its name; or several."),)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Delete flavors."""
        with self.records(parsed_args) as database:
            for name in dict.fromkeys(parsed_args.flavors):
                with self.failing():
                    database.flavors.delete(name)


def _meant(name: str) -> str:
    """The extra spec that is meant by the name of one, if that looks like a resource's."""
    import os_resource_classes

    prefix, _, resource_class = name.partition(":")
    match = _RESOURCES.fullmatch(prefix)
    if match is None:
        return name
    meant = os_resource_classes.normalize_name(resource_class).removeprefix("CUSTOM_")
    if meant not in os_resource_classes.STANDARDS and not meant.startswith("CUSTOM_"):
        meant = f"CUSTOM_{meant}"
    return f"resources{match[1] or ''}:{meant}"


def _extra_specs(parsed_args: argparse.Namespace) -> dict[str, str]:
    from ironic_virt.request.spec import placement_class

    specs = {f"trait:{trait}": "required" for trait in parsed_args.traits}
    if parsed_args.resource_class is not None:
        specs[f"resources:{placement_class(parsed_args.resource_class)}"] = "1"
    return {**specs, **parsed_args.properties}
