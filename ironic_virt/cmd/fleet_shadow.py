# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet shadow``: this driver beside Nova's own, before anything is changed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions
from ironic_virt.cmd import arguments, output
from ironic_virt.cmd.commands import argument
from ironic_virt.cmd.fleet import FleetCommand
from ironic_virt.exit_codes import FleetExitCode

if TYPE_CHECKING:
    from ironic_virt.fleet.shadow import Difference, Side

_COLUMNS = output.in_order("What", "Count", "Example", "In-Tree", "Ours", "Explained By")


class Shadow(FleetCommand):
    """Ask Nova's own driver and this one the same of all nodes, and change nothing.

    Both get the options of one service, from the files that it reads; give them after Nova's
    own file. What differs is either in the documentation's table of differences, and then
    the row is named, or not explained.

      ironic-virt-fleet --config-file /etc/nova/nova.conf \\
          --config-file /etc/nova/compute-a.conf shadow --host compute-a

    Exit codes: 0 no difference is unexplained, 1 it could not be done, 2 some are.
    """

    columns = _COLUMNS
    takes = (
        argument(
            "--host",
            metavar="<host>",
            type=arguments.name,
            help="The service whose nodes are asked for (default: [DEFAULT] host).",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Ask both, and compare."""
        reader = self.reader(parsed_args)
        from ironic_virt.fleet import cells, drivers, shadow

        conf = reader.conf
        if parsed_args.host:
            conf.set_override("host", parsed_args.host)
        if conf.ironic.node_selection == "ironic":
            raise exceptions.InvalidConfiguration(
                "[ironic] node_selection",
                "is ironic, by which this driver reports pools; Nova's own driver knows none. "
                "Leave it out of the files for this comparison",
            )
        deployment = reader.read(placement=False)
        service = deployment.service_of.get(conf.host)
        if service is None:
            raise exceptions.InvalidConfiguration(
                "--host", f"there is no nova-compute on {conf.host}"
            )
        cell = next(one for one in cells.cells() if one.uuid == service.cell)
        with drivers.records_of(cell):
            theirs = drivers.in_tree(conf, reader.progress)
            ours = drivers.ours(conf, reader.progress)
        known = shadow.Known(
            conf.host,
            deployment.nodes,
            {uuid: record.host for uuid, record in deployment.node_records.items()},
            frozenset(one.uuid for one in deployment.live_servers if one.host == conf.host),
            has_shard=bool(conf.ironic.shard_key or conf.ironic.shard),
        )
        found = shadow.compare(theirs, ours, known)
        unexplained = sum(one.row is None for one in found)
        self.code = FleetExitCode.FOUND if unexplained else 0
        for name, side in (("Nova's own driver", theirs), ("This driver", ours)):
            self.say(_words(name, side))
        self.say(f"{len(found):,} differences, {unexplained:,} of them unexplained")
        return output.table(_COLUMNS, [*_rows(found), *_costs(theirs, ours)])


def _words(name: str, side: Side) -> str:
    if side.error:
        return f"{name} does not start: {side.error}"
    return f"{name}: {len(side.nodes):,} nodes, {len(side.servers):,} servers"


def _rows(found: Sequence[Difference]) -> Iterator[tuple[Any, ...]]:
    """A row for each difference that is not explained, and one for each kind that is."""
    kinds: dict[tuple[str, str], list[Difference]] = {}
    for one in found:
        if one.row is None:
            yield (one.what, 1, one.about, one.in_tree, one.ours, None)
        else:
            kinds.setdefault((one.what, one.row), []).append(one)
    for (what, row), alike in kinds.items():
        first = alike[0]
        yield (what, len(alike), first.about, first.in_tree, first.ours, row)


def _costs(theirs: Side, ours: Side) -> Iterator[tuple[Any, ...]]:
    for what, name in (
        ("requests", "requests"),
        ("bytes received", "received"),
        ("seconds of CPU", "cpu"),
        ("seconds", "seconds"),
    ):
        values = [getattr(side.cost, name) for side in (theirs, ours)]
        yield (f"cost: {what}", 1, None, *values, "cost")
