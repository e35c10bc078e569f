# SPDX-License-Identifier: Apache-2.0

"""The journey: the commands that the demo types, and what it sees to in between.

What commands print is the records' word.  Before and after, the journey looks at
the nodes in Ironic by itself: that everything is as it was is Ironic's word.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
from collections.abc import Callable
from typing import Protocol

from ironic_virt import virt
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.cmd.demo.interrupts import DemoFailed, Interrupts
from ironic_virt.cmd.demo.report import InstanceView, NodeView, Report
from ironic_virt.cmd.demo.servers import RESOURCE_CLASS
from ironic_virt.cmd.demo.service import free_places
from ironic_virt.cmd.progress import Display, Tracks
from ironic_virt.compute.db import Database

FLAVOR = "gold"
# Nobody fetches it: the hardware is fake on either Ironic.
IMAGE = "file:///images/demo.img"
# What fits into a terminal of 80 columns.
_NODE_COLUMNS = ("-c", "UUID", "-c", "State", "-c", "Host")
_SERVER_COLUMNS = ("-c", "Name", "-c", "Status", "-c", "Node")
_EVENT_COLUMNS = ("-c", "Action", "-c", "Start_Time", "-c", "Result")
# How often to look whether nodes are available again.
_LOOK_SECONDS = 0.25
# Before API version 1.2 there was no name for the first.
_AVAILABLE = (states.AVAILABLE, None)
_STUCK = (states.CLEAN_FAILED, states.ERROR)


class Ironic(Protocol):
    """What the journey looks at by itself."""

    def list_nodes(self) -> list[Node]:
        """All nodes."""


class Journey:
    """One journey, to be gone once, in the main thread.

    :param command: runs an ``ironic-virt`` command with these arguments to its end.
    :param database: the records; they are looked at only.
    :param check: raises if the compute service isn't there any more.
    :param report: is filled in.
    :param pooled: Ironic picks the nodes, so the commands list pools.
    :param cleaned_seconds: how long the nodes may take to be available again.
    """

    def __init__(
        self,
        command: Callable[..., None],
        database: Database,
        ironic: Ironic,
        display: Display,
        interrupts: Interrupts,
        report: Report,
        *,
        check: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        pooled: bool = False,
        cleaned_seconds: float = 300.0,
    ) -> None:
        self._command = command
        self._db = database
        self._ironic = ironic
        self._display = display
        self._interrupts = interrupts
        self._report = report
        self._check = check
        self._clock = clock
        self._cleaned_seconds = cleaned_seconds
        self._list = ("node", "list", *(["--pools"] if pooled else _NODE_COLUMNS))

    def go(self, count: int) -> None:
        """Build ``count`` servers, try them, and delete them.

        :raises IronicVirtError: something failed.
        :raises Interrupted: a signal came.
        """
        names = ["demo"] if count == 1 else [f"demo-{number}" for number in range(1, count + 1)]
        self._report.nodes_before = self._nodes()
        with self._report.timed("flavor"):
            self._command("flavor", "create", FLAVOR, "--resource-class", RESOURCE_CLASS)
        self._command(*self._list)
        with self._report.timed("create"):
            several = () if count == 1 else ("--min", str(count), *_SERVER_COLUMNS)
            self._command(
                *("server", "create", "--flavor", FLAVOR, "--image", IMAGE, *several),
                *("--wait", "demo"),
            )
        self._look_at_servers(names)
        self._command(*self._list)
        for action, name in (("reboot", names[0]), ("stop", names[-1]), ("start", names[-1])):
            with self._report.timed(action):
                self._command("server", action, name, "--wait")
        self._command("server", "event", "list", names[-1], *_EVENT_COLUMNS)
        with self._report.timed("delete"):
            self._command("server", "delete", *names, "--wait")
        self._wait_until_available()
        self._wait_until_free()
        self._command(*self._list)
        self._report.nodes_after = self._nodes()
        self._check_nothing_left()

    # -- looking --------------------------------------------------------------

    def _nodes(self) -> list[NodeView]:
        return [
            NodeView(
                uuid=node.uuid,
                name=node.name or node.uuid,
                provision_state=node.provision_state or states.AVAILABLE,
                power_state=node.power_state,
                instance_uuid=node.instance_uuid,
            )
            for node in self._ironic.list_nodes()
        ]

    def _look_at_servers(self, names: list[str]) -> None:
        """See that Ironic has each server on the node that the records say."""
        self._report.nodes_deployed = self._nodes()
        carried = {node.instance_uuid: node for node in self._report.nodes_deployed}
        for name in names:
            record = self._db.instances.get(name)
            node = carried.get(record.uuid)
            if node is None or node.uuid != record.node or node.provision_state != states.ACTIVE:
                raise DemoFailed(
                    f"{name} is {record.vm_state} on node {record.node}, and Ironic has it "
                    + (f"on {node.uuid}, {node.provision_state}" if node else "nowhere")
                )
            self._report.instances = [
                *self._report.instances,
                InstanceView(
                    uuid=record.uuid,
                    name=name,
                    node=node.name,
                    power_state=virt.PowerState(record.power_state).name,
                ),
            ]

    def _wait_until_available(self) -> None:
        busy = {
            node.uuid: node.name or node.uuid
            for node in self._ironic.list_nodes()
            if node.provision_state not in _AVAILABLE
        }

        def look(tracks: Tracks) -> None:
            for node in self._ironic.list_nodes():
                if node.uuid not in busy:
                    continue
                if node.provision_state in _AVAILABLE:
                    tracks.finish(node.uuid, "available")
                    del busy[node.uuid]
                elif node.provision_state in _STUCK:
                    reason = node.last_error or "Ironic gives no reason"
                    tracks.fail(node.uuid, reason)
                    raise DemoFailed(f"Node {busy[node.uuid]} was not cleaned: {reason}")
                else:
                    tracks.report(node.uuid, str(node.provision_state))

        deadline = self._clock() + self._cleaned_seconds
        with contextlib.ExitStack() as stack:
            # A thread of its own, so that a signal is noticed while Ironic is asked.
            thread = stack.enter_context(concurrent.futures.ThreadPoolExecutor(1, "demo"))
            stack.enter_context(self._report.timed("clean"))
            if not busy:
                return
            names = {node: (name, "") for node, name in busy.items()}
            tracks = stack.enter_context(self._display.watch("Ironic cleans the nodes", names))
            while busy:
                if self._clock() > deadline:
                    raise DemoFailed(
                        f"{', '.join(busy.values())}: not available again after "
                        f"{self._cleaned_seconds:.0f} s"
                    )
                self._interrupts.wait([thread.submit(look, tracks)])
                if busy:
                    self._interrupts.sleep(_LOOK_SECONDS)

    def _wait_until_free(self) -> None:
        """Wait until the compute service has seen it too."""
        deadline = self._clock() + self._cleaned_seconds
        while free_places(self._db) < len(self._report.nodes_before):
            self._check()
            if self._clock() > deadline:
                raise DemoFailed("The compute service does not see that its nodes are free again")
            self._interrupts.sleep(_LOOK_SECONDS)

    def _check_nothing_left(self) -> None:
        left = [
            f"{node.name} is {node.provision_state}"
            + (f" with server {node.instance_uuid}" if node.instance_uuid else "")
            for node in self._report.nodes_after
            if node.provision_state != states.AVAILABLE or node.instance_uuid
        ]
        left += [f"the records have server {one.name}" for one in self._db.instances.list()]
        left += [
            f"node {node.uuid} is claimed by server {node.instance_uuid}"
            for node in self._db.compute_nodes.list()
            if node.instance_uuid
        ]
        if left:
            raise DemoFailed(f"Not everything is as it was before: {', '.join(left)}")
