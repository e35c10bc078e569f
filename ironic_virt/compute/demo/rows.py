# SPDX-License-Identifier: Apache-2.0

"""From state to lines and cells of text: pure, and the same for every display."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ironic_virt import virt
from ironic_virt.baremetal import states
from ironic_virt.compute.demo.progress import Outcome, Track

_PATH = {
    "waiting": 0.0,
    "reserving": 0.1,
    "configuring": 0.2,
    "validating": 0.3,
}
"""How much of a deployment lies behind an instance that has reached a step.

Later steps are not here: how long a node deploys, nobody knows beforehand.
"""

NODE_COLUMNS = ("Node", "Provision state", "Power", "Instance")
INSTANCE_COLUMNS = ("Instance", "UUID", "Node", "Power", "VIFs")

_POWER = {
    virt.PowerState.RUNNING: "running",
    virt.PowerState.SHUTDOWN: "shut down",
}


@dataclasses.dataclass(frozen=True, slots=True)
class NodeView:
    """A node as the demo shows it.

    :ivar name: its name, or its uuid if it has none.
    :ivar power_state: as Ironic has it; ``None``: not known.
    :ivar instance: the instance's name, or its uuid when it is unknown to us.
    """

    uuid: str
    name: str
    provision_state: str
    power_state: str | None
    instance_uuid: str | None
    instance: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceView:
    """An instance as the demo shows it.

    :ivar vifs: the ids of the VIFs that are attached to its node.
    """

    uuid: str
    name: str
    node: str
    power_state: virt.PowerState
    vifs: tuple[str, ...]


def power_words(state: virt.PowerState) -> str:
    """A power state in words."""
    return _POWER.get(state, state.name.lower())


def node_cells(nodes: Sequence[NodeView]) -> list[tuple[str, ...]]:
    """The cells under :data:`NODE_COLUMNS`."""
    return [
        (node.name, node.provision_state, node.power_state or "unknown", node.instance or "-")
        for node in nodes
    ]


def instance_cells(instances: Sequence[InstanceView]) -> list[tuple[str, ...]]:
    """The cells under :data:`INSTANCE_COLUMNS`."""
    return [
        (
            instance.name,
            instance.uuid,
            instance.node,
            power_words(instance.power_state),
            ", ".join(vif.partition("-")[0] for vif in instance.vifs) or "-",
        )
        for instance in instances
    ]


def track_cells(track: Track, now: float) -> tuple[str, str, str, str]:
    """Name, node, what is being done, and for how long."""
    doing = track.step
    # That a node was available before it got busy goes without saying.
    if track.detail not in ("", track.step, states.AVAILABLE):
        doing += f" ({track.detail})"
    return track.name, track.where, doing, seconds(track.seconds(now))


def track_line(name: str, where: str, doing: str, took: str) -> str:
    """The cells of a track as one line of text."""
    return f"{name}{f' on {where}' if where else ''}: {doing}, {took}"


def share_done(track: Track) -> float | None:
    """How much of a deployment is done, 0 to 1; ``None`` when nobody can tell."""
    if track.outcome is not Outcome.GOING_ON:
        return 1.0
    return _PATH.get(track.step)


def seconds(value: float) -> str:
    """A duration for people."""
    return f"{value:.1f} s"


def text_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """A table in plain text, one string a line."""
    rows = [tuple(columns), *cells]
    widths = [max(len(row[index]) for row in rows) for index in range(len(columns))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines
