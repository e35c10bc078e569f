# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt flavor create|list|show|delete``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ironic_virt import exceptions, virt
from ironic_virt.cmd import arguments, configured, output

_COLUMNS = ("Name", "RAM", "Disk", "Ephemeral", "Swap", "VCPUs", "Properties")
_SHOW_COLUMNS = ("name", "ram", "disk", "ephemeral", "swap", "vcpus", "properties")


class Create(output.ShowOne):
    """Create a flavor: what a node must have for servers of it.

    Sizes that are 0 are not looked at; with the resource class given, they seldom
    matter.
    """

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt flavor create gold --resource-class baremetal-gold
  ironic-virt flavor create gpu --resource-class gold --trait CUSTOM_GPU
  ironic-virt flavor create sized --ram 65536 --vcpus 16 --disk 400
"""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return _SHOW_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "name", metavar="<flavor-name>", type=arguments.name, help="What to call it."
        )
        for option, unit, what in (
            ("--ram", "size-mb", "Memory in MiB"),
            ("--disk", "size-gb", "Disk in GiB"),
            ("--ephemeral", "size-gb", "Further disk, in GiB"),
            ("--swap", "size-mb", "Swap in MiB"),
            ("--vcpus", "vcpus", "Cores"),
        ):
            parser.add_argument(
                option,
                type=arguments.count,
                default=0,
                metavar=f"<{unit}>",
                help=f"{what} (default: %(default)s).",
            )
        parser.add_argument(
            "--resource-class",
            metavar="<class>",
            type=arguments.name,
            help="The nodes' resource class in Ironic;"
            " the same as --property resources:CUSTOM_<CLASS>=1.",
        )
        parser.add_argument(
            "--trait",
            action="append",
            default=[],
            dest="traits",
            metavar="<trait>",
            type=arguments.name,
            help="A trait that nodes must have; the same as --property trait:<TRAIT>=required"
            " (may be repeated).",
        )
        parser.add_argument(
            "--property",
            action=arguments.KeyValue,
            default={},
            dest="properties",
            metavar="<key=value>",
            help="An extra spec, as in Nova's flavors (may be repeated).",
        )
        return parser

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
        return _shown(flavor)

    def _check(self, flavor: virt.Flavor) -> None:
        from ironic_virt.compute.api import check_flavor

        try:
            check_flavor(flavor)
        except exceptions.InvalidExtraSpec as error:
            self.refuse(str(error))


class List(output.Lister):
    """List flavors."""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.Lister`."""
        return _COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """List flavors."""
        with self.records(parsed_args) as database:
            return output.table(_COLUMNS, map(_row, database.flavors.list()))


class Show(output.ShowOne):
    """Show a flavor."""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return _SHOW_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("flavor", metavar="<flavor>", help="Its name.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Show a flavor."""
        with self.records(parsed_args) as database:
            return _shown(database.flavors.get(parsed_args.flavor))


class Delete(configured.Configured):
    """Delete flavors; servers of them are left alone."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("flavors", metavar="<flavor>", nargs="+", help="Its name; or several.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Delete flavors."""
        code = 0
        with self.records(parsed_args) as database:
            for name in dict.fromkeys(parsed_args.flavors):
                try:
                    database.flavors.delete(name)
                except exceptions.IronicVirtError as error:
                    self.app.LOG.error("%s", error)
                    code = 1
        return code


def _extra_specs(parsed_args: argparse.Namespace) -> dict[str, str]:
    from ironic_virt.request.spec import placement_class

    specs = {f"trait:{trait}": "required" for trait in parsed_args.traits}
    if parsed_args.resource_class is not None:
        specs[f"resources:{placement_class(parsed_args.resource_class)}"] = "1"
    return {**specs, **parsed_args.properties}


def _row(flavor: virt.Flavor) -> tuple[Any, ...]:
    return (
        *(flavor.name, flavor.memory_mb, flavor.root_gb, flavor.ephemeral_gb, flavor.swap),
        *(flavor.vcpus, output.Json(dict(flavor.extra_specs))),
    )


def _shown(flavor: virt.Flavor) -> Any:
    return output.one(dict(zip(_SHOW_COLUMNS, _row(flavor), strict=True)))
