# SPDX-License-Identifier: Apache-2.0

"""The journey: what the demo has the driver do, step by step.

The main thread leads and waits; every call that may take long is made on a
thread of its own, so that three deployments wait at once and a signal is
noticed.  It calls nothing of the driver but the contract, and looks at the
nodes for the tables by itself: what is shown is Ironic's word.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ironic_virt import virt
from ironic_virt.baremetal import states
from ironic_virt.baremetal.node import Node
from ironic_virt.compute.demo import rows, service
from ironic_virt.compute.demo.display import Display
from ironic_virt.compute.demo.errors import DemoFailed
from ironic_virt.compute.demo.interrupts import Interrupts
from ironic_virt.compute.demo.progress import Board
from ironic_virt.compute.demo.report import Report
from ironic_virt.compute.demo.rows import InstanceView, NodeView
from ironic_virt.compute.demo.servers import PLACEMENT_CLASS

FLAVOR = virt.Flavor(
    "baremetal",
    vcpus=8,
    memory_mb=16384,
    root_gb=20,
    extra_specs={f"resources:{PLACEMENT_CLASS}": "1"},
)
IMAGE = virt.ImageMeta(
    # Nobody fetches it: the hardware is fake on either Ironic.
    id="http://images.example.test/demo.img",
    checksum="6b3a55e0261b0304143f805a24924d0c1c44524821305f31d9277843b8a10f4e",
    disk_format="raw",
)
# How often to look whether nodes are available again.
_LOOK_SECONDS = 0.25
# Before API version 1.2 there was no name for the first.
_AVAILABLE = (states.AVAILABLE, None)
_STUCK = (states.CLEAN_FAILED, states.ERROR)


class Ironic(Protocol):
    """What the journey looks at by itself."""

    def list_nodes(self) -> list[Node]:
        """All nodes."""

    def list_vifs(self, uuid: str) -> list[str]:
        """The ids of the VIFs attached to a node."""


class Journey:
    """One journey with one driver, to be gone once.

    :param driver: initialized.
    :param virtapi: the service that the driver was loaded for.
    :param report: is filled in.
    :param new_uuid: makes the uuids of instances and VIFs.
    :param cleaned_seconds: how long the nodes may take to be available again.
    """

    def __init__(
        self,
        driver: virt.ComputeDriver,
        virtapi: service.Service,
        board: Board,
        ironic: Ironic,
        display: Display,
        interrupts: Interrupts,
        report: Report,
        *,
        clock: Callable[[], float] = time.monotonic,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
        cleaned_seconds: float = 300.0,
    ) -> None:
        self._driver = driver
        self._service = virtapi
        self._board = board
        self._ironic = ironic
        self._display = display
        self._interrupts = interrupts
        self._report = report
        self._clock = clock
        self._new_uuid = new_uuid
        self._cleaned_seconds = cleaned_seconds
        self._vifs: dict[str, virt.Vif] = {}

    def go(self, count: int) -> None:
        """Deploy ``count`` instances, try them, and destroy them.

        When it ends early, for whatever reason, all its threads have ended, and
        the driver has been told to end its waits: it is of no more use.

        :raises IronicVirtError: something failed.
        :raises Interrupted: a signal came.
        """
        with contextlib.ExitStack() as stack:
            threads = concurrent.futures.ThreadPoolExecutor(count, "demo")
            stack.callback(threads.shutdown, cancel_futures=True)
            # Before the threads are waited for: this wakes them.
            stack.callback(self._driver.cleanup_host, self._service.host)
            self._report.nodes_before = self._show_nodes("Nodes before")
            instances = self._schedule(count)
            self._deploy(threads, instances)
            self._report.nodes_deployed = self._show_nodes("Nodes with instances")
            self._reboot(threads, instances[0])
            self._power_cycle(threads, instances[-1])
            self._list(threads)
            self._destroy(threads, instances)
            self._wait_until_available(threads)
            self._report.nodes_after = self._show_nodes("Nodes after")
            self._check_nothing_left()

    # -- the steps ------------------------------------------------------------

    def _schedule(self, count: int) -> list[virt.Instance]:
        offers = {
            node: self._driver.get_inventory(node)
            for node in self._driver.get_available_nodes(refresh=True)
        }
        nodes = service.pick_nodes(offers, PLACEMENT_CLASS, count)
        instances = []
        for number, node in enumerate(nodes, 1):
            instance = virt.Instance(
                uuid=self._new_uuid(),
                name=f"instance-{number:08x}",
                display_name=f"demo-{number}",
                flavor=FLAVOR,
                host=self._service.host,
                node=node,
                project_id="demo",
                user_id="demo",
            )
            self._service.add(instance)
            self._vifs[instance.uuid] = virt.Vif(self._new_uuid())
            instances.append(instance)
        return instances

    def _deploy(
        self, threads: concurrent.futures.Executor, instances: Sequence[virt.Instance]
    ) -> None:
        def deploy(instance: virt.Instance) -> str:
            self._driver.prepare_for_spawn(instance)
            vif = self._vifs[instance.uuid]
            self._driver.spawn(None, instance, IMAGE, (), None, None, network_info=(vif,))
            # Fake hardware deploys without touching the power.
            if self._driver.get_info(instance, use_cache=False).state == virt.PowerState.SHUTDOWN:
                self._board.report(instance.uuid, "powering on")
                self._driver.power_on(None, instance, None)
            return "active"

        what = "1 instance" if len(instances) == 1 else f"{len(instances)} instances at once"
        self._act("deploy", f"Deploying {what}", threads, instances, deploy)

    def _reboot(self, threads: concurrent.futures.Executor, instance: virt.Instance) -> None:
        def reboot(instance: virt.Instance) -> str:
            self._board.report(instance.uuid, "rebooting")
            self._driver.reboot(None, instance, None, "SOFT")
            return self._power_state(instance, virt.PowerState.RUNNING)

        title = f"Rebooting {instance.display_name}"
        self._act("reboot", title, threads, [instance], reboot)

    def _power_cycle(self, threads: concurrent.futures.Executor, instance: virt.Instance) -> None:
        def power_off(instance: virt.Instance) -> str:
            self._board.report(instance.uuid, "powering off")
            self._driver.power_off(instance)
            return self._power_state(instance, virt.PowerState.SHUTDOWN)

        def power_on(instance: virt.Instance) -> str:
            self._board.report(instance.uuid, "powering on")
            self._driver.power_on(None, instance, None)
            return self._power_state(instance, virt.PowerState.RUNNING)

        name = instance.display_name
        self._act("power off", f"Powering {name} off", threads, [instance], power_off)
        self._act("power on", f"Powering {name} on", threads, [instance], power_on)

    def _list(self, threads: concurrent.futures.Executor) -> None:
        with self._report.timed("list"):
            self._driver.get_available_nodes(refresh=True)
            found = self._driver.list_instance_uuids()
            known = {instance.uuid: instance for instance in self._service.instances}
            if sorted(found) != sorted(known):
                raise DemoFailed(
                    f"The driver lists other instances ({', '.join(found)}) than were deployed"
                )
            self._report.instances = [self._view(known[uuid]) for uuid in known]
        cells = rows.instance_cells(self._report.instances)
        self._display.table("Instances, says the driver", rows.INSTANCE_COLUMNS, cells)

    def _destroy(
        self, threads: concurrent.futures.Executor, instances: Sequence[virt.Instance]
    ) -> None:
        def destroy(instance: virt.Instance) -> str:
            self._driver.destroy(None, instance, (self._vifs[instance.uuid],))
            self._service.remove(instance.uuid)
            return "gone"

        self._act("destroy", "Destroying all instances", threads, instances, destroy)

    def _wait_until_available(self, threads: concurrent.futures.Executor) -> None:
        busy = {
            node.uuid: node.name or node.uuid
            for node in self._ironic.list_nodes()
            if node.provision_state not in _AVAILABLE
        }

        def look() -> None:
            for node in self._ironic.list_nodes():
                if node.uuid not in busy:
                    continue
                if node.provision_state in _AVAILABLE:
                    self._board.finish(node.uuid, "available")
                    del busy[node.uuid]
                elif node.provision_state in _STUCK:
                    reason = node.last_error or "Ironic gives no reason"
                    self._board.fail(node.uuid, reason)
                    raise DemoFailed(f"Node {busy[node.uuid]} was not cleaned: {reason}")
                else:
                    self._board.report(node.uuid, str(node.provision_state))

        deadline = self._clock() + self._cleaned_seconds
        self._board.begin({node: (name, "") for node, name in busy.items()})
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._report.timed("clean"))
            if busy:
                title = "Ironic cleans the nodes"
                stack.enter_context(self._display.watch(title, self._board))
            while busy:
                if self._clock() > deadline:
                    raise DemoFailed(
                        f"{', '.join(busy.values())}: not available again after "
                        f"{self._cleaned_seconds:.0f} s"
                    )
                self._interrupts.wait([threads.submit(look)])
                if busy:
                    self._interrupts.sleep(_LOOK_SECONDS)

    def _check_nothing_left(self) -> None:
        left = [
            f"{node.name} is {node.provision_state}"
            + (f" with instance {node.instance_uuid}" if node.instance_uuid else "")
            for node in self._report.nodes_after
            if node.provision_state != states.AVAILABLE or node.instance_uuid
        ]
        self._driver.get_available_nodes(refresh=True)
        left += [f"the driver lists {uuid}" for uuid in self._driver.list_instance_uuids()]
        if left:
            raise DemoFailed(f"Not everything is as it was before: {', '.join(left)}")

    # -- how a step is taken --------------------------------------------------

    def _act(
        self,
        step: str,
        title: str,
        threads: concurrent.futures.Executor,
        instances: Sequence[virt.Instance],
        action: Callable[[virt.Instance], str],
    ) -> None:
        """Do something with several instances at once, and show how it goes.

        :param action: returns what to show at its end.
        """

        def tracked(instance: virt.Instance) -> None:
            try:
                end = action(instance)
            except Exception as error:
                self._board.fail(instance.uuid, type(error).__name__)
                raise
            self._board.finish(instance.uuid, end)

        names = {node.uuid: node.name or node.uuid for node in self._ironic.list_nodes()}
        self._board.begin(
            {
                instance.uuid: (str(instance.display_name), names.get(str(instance.node), ""))
                for instance in instances
            }
        )
        with self._report.timed(step), self._display.watch(title, self._board):
            self._interrupts.wait([threads.submit(tracked, one) for one in instances])

    # -- looking --------------------------------------------------------------

    def _power_state(self, instance: virt.Instance, expected: virt.PowerState) -> str:
        state = self._driver.get_info(instance, use_cache=False).state
        if state != expected:
            raise DemoFailed(
                f"{instance.display_name} is {rows.power_words(state)}, "
                f"not {rows.power_words(expected)}"
            )
        return rows.power_words(state)

    def _view(self, instance: virt.Instance) -> InstanceView:
        names = {node.uuid: node.name for node in self._ironic.list_nodes()}
        node = str(instance.node)
        return InstanceView(
            uuid=instance.uuid,
            name=str(instance.display_name),
            node=names.get(node) or node,
            power_state=self._driver.get_info(instance, use_cache=False).state,
            vifs=tuple(self._ironic.list_vifs(node)),
        )

    def _show_nodes(self, title: str) -> list[NodeView]:
        known = {one.uuid: one.display_name for one in self._service.instances}
        nodes = [_node_view(node, known) for node in self._ironic.list_nodes()]
        self._display.table(title, rows.NODE_COLUMNS, rows.node_cells(nodes))
        return nodes


def _node_view(node: Node, instances: Mapping[str, str | None]) -> NodeView:
    carried = node.instance_uuid
    return NodeView(
        uuid=node.uuid,
        name=node.name or node.uuid,
        provision_state=node.provision_state or states.AVAILABLE,
        power_state=node.power_state,
        instance_uuid=carried,
        instance=instances.get(carried, carried) if carried else None,
    )
