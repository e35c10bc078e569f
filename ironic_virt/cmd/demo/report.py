# SPDX-License-Identifier: Apache-2.0

"""What happened in a run, and the one JSON object that ``--json`` makes of it."""

from __future__ import annotations

import contextlib
import dataclasses
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Any

OK = "ok"
FAILED = "failed"
INTERRUPTED = "interrupted"


@dataclasses.dataclass(frozen=True, slots=True)
class NodeView:
    """A node as Ironic has it.

    :ivar name: its name, or its uuid if it has none.
    :ivar power_state: ``None``: not known.
    """

    uuid: str
    name: str
    provision_state: str
    power_state: str | None
    instance_uuid: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceView:
    """A server as the records have it.

    :ivar node: the node's name.
    :ivar power_state: the name of a :class:`~ironic_virt.virt.PowerState`.
    """

    uuid: str
    name: str
    node: str
    power_state: str


@dataclasses.dataclass(slots=True)
class Report:
    """A run so far.  Filled by the main thread as the run goes.

    :ivar kind: of the Ironic, ``fake`` or ``real``.
    :ivar result: ``ok``, ``failed`` or ``interrupted``.
    :ivar error: why it failed, in one line.
    :ivar ironic_version: of the real Ironic.
    :ivar api_version: the newest that it speaks.
    :ivar seconds: by step, what each took.
    """

    kind: str
    clock: Callable[[], float] = time.monotonic
    result: str = FAILED
    error: str | None = None
    ironic_version: str | None = None
    api_version: str | None = None
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    nodes_before: Sequence[NodeView] = ()
    nodes_deployed: Sequence[NodeView] = ()
    nodes_after: Sequence[NodeView] = ()
    instances: Sequence[InstanceView] = ()

    @contextlib.contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Note how long the block takes, also when it fails."""
        began = self.clock()
        try:
            yield
        finally:
            self.seconds[step] = round(self.clock() - began, 3)

    def to_json(self) -> dict[str, Any]:
        """The report as values that JSON has."""
        return {
            "result": self.result,
            "error": self.error,
            "ironic": {
                "kind": self.kind,
                "version": self.ironic_version,
                "api_version": self.api_version,
            },
            "versions": {"ironic-virt": own_version(), "python": platform.python_version()},
            "seconds": self.seconds,
            "servers": [dataclasses.asdict(one) for one in self.instances],
            "nodes": {
                "before": [dataclasses.asdict(one) for one in self.nodes_before],
                "deployed": [dataclasses.asdict(one) for one in self.nodes_deployed],
                "after": [dataclasses.asdict(one) for one in self.nodes_after],
            },
        }


def own_version() -> str:
    """The version of this package."""
    return metadata.version("ironic-virt")
