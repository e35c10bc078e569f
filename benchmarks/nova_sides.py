# SPDX-License-Identifier: Apache-2.0

"""The sides of ``nova``: a whole Nova with one nova-compute, in its own process.

It is the one of ``tests/nova``: API, scheduler, conductor, compute and Placement of
Nova's functional fixtures, on databases in memory.  The side starts nova-compute, has
it do what its resource periodic does, and restarts it.  Where the time goes is measured by
:class:`~benchmarks.nova_parts.Parts`:

``driver``
    in the virt driver, Ironic's answers included
``database``
    in Nova's objects that ask the database, whoever calls them: nova-compute asks the
    conductor to do it
``placement``
    in requests to Placement

Options are Nova's defaults.  A service's heartbeat is kept out, as it would fall into some
periods only.  Nova reads a provider's associations again after five minutes; the clock for that
goes on by a minute from period to period, however long they take here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
import types
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks import measure
from benchmarks.nova_parts import Parts

DRIVER, DATABASE, PLACEMENT = "driver", "database", "placement"
PARTS = (DRIVER, DATABASE, PLACEMENT)
HOST = "compute-1"
DAY = 86400
MINUTE = 60


class Compute:
    """A nova-compute that has not been started.

    :param url: of Ironic.
    :param driver: a key of ``tests.nova.deployment.DRIVERS``.
    :param options: of ``[ironic]``, as in nova.conf, by name.
    :param workers: ``[compute] update_resources_max_workers``; Nova's default if None.
    :param eventlet: run by eventlet, not by native threads.
    """

    def __init__(
        self,
        url: str,
        driver: str,
        options: Mapping[str, Any] | None = None,
        workers: int | None = None,
        eventlet: bool = False,
    ) -> None:
        # Before anything of Nova's tests is imported.
        os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "0" if eventlet else "1"
        from nova import monkey_patch

        # Up to 2025.1 importing it is enough.
        if hasattr(monkey_patch, "patch"):
            monkey_patch.patch()
        from keystoneauth1 import loading
        from nova import conf
        from nova.scheduler.client import report

        from tests.nova import deployment

        chosen = driver

        class Stage(deployment.Deployment):
            driver = chosen

            def setUp(self) -> None:
                """Keep out what happens by the clock, and so in some periods only."""
                self.flags(report_interval=DAY, service_down_time=2 * DAY)
                if workers is not None:
                    self.flags(update_resources_max_workers=workers, group="compute")
                super().setUp()
                # Nova's tests have all of them formatted; it is off in nova.conf by default.
                logging.disable(logging.DEBUG)

            def runTest(self) -> None:  # noqa: N802 - unittest's name
                """Nothing: only what is set up counts."""

        self._now = time.time()
        self._report: Any = report
        self._report.time = types.SimpleNamespace(time=lambda: self._now, sleep=time.sleep)
        self._parts = Parts()
        self._stage = Stage()
        self._stage.setUp()
        directory = tempfile.TemporaryDirectory()
        self._stage.addCleanup(directory.cleanup)
        # What nova-compute keeps for its next start.
        self._stage.flags(state_path=directory.name)
        ironic: Any = types.SimpleNamespace(url=url)
        conf.CONF.register_opts(loading.get_auth_plugin_conf_options("v3password"), group="ironic")
        self._stage.start_nova(ironic, **dict(options or {}))
        self._watch()

    def _watch(self) -> None:
        import requests
        from nova import conf
        from nova.objects import base
        from oslo_utils import importutils

        driver = importutils.import_class(f"nova.virt.{conf.CONF.compute_driver}")
        self._parts.wrap_methods(
            driver,
            DRIVER,
            ["__init__", *(name for name in vars(driver) if not name.startswith("_"))],
        )
        for versions in base.NovaObjectRegistry.obj_classes().values():
            for one in versions:
                queries = [name for name in vars(one) if _asks_the_database(one, name)]
                self._parts.wrap_methods(one, DATABASE, queries)
        placement = self._stage.placement_url()
        session_class: Any = requests.Session
        send = session_class.send
        send_to_placement = self._parts.wrapped(send, PLACEMENT)

        def sent(session: Any, request: Any, **kwargs: Any) -> Any:
            by = send_to_placement if request.url.startswith(placement) else send
            return by(session, request, **kwargs)

        session_class.send = sent

    def start(self) -> dict[str, float]:
        """Start nova-compute; when this returns it serves requests.

        :returns: as :meth:`refresh`.
        """

        def start() -> None:
            self._service = self._stage.start_service("compute", HOST)

        return self._measured(start)

    def restart(self) -> dict[str, float]:
        """Stop nova-compute and start it as a new process: only records and files are left.

        :returns: as :meth:`refresh`, of the start.
        """
        self._service.stop()
        self._report.PLACEMENTCLIENT = None
        return self.start()

    def threads(self) -> int:
        """How many threads see to the nodes, where Nova lets an option say so."""
        from nova import thread_pool_factory

        kind = thread_pool_factory.ExecutorType.UPDATE_RESOURCES
        workers: int = thread_pool_factory.get_executor(kind).num_workers
        return workers

    def refresh(self, minutes: int = 1, may_fail: bool = False) -> dict[str, float]:
        """Do what the resource periodic does.

        :param minutes: since the last one, by the clock of what Nova knows of Placement.
        :param may_fail: as when Ironic is away; Nova goes on with its next period.
        :returns: ``wall`` and ``cpu``, of the whole process, in seconds; both also of each
            of :data:`PARTS`, with its name before them; ``database_queries``, and the
            requests: ``ironic_requests``, ``placement_requests``.
        """
        from nova import context

        self._now += minutes * MINUTE
        update = self._service.manager.update_available_resource

        def period() -> None:
            with contextlib.suppress(Exception) if may_fail else contextlib.nullcontext():
                update(context.get_admin_context())

        return self._measured(period)

    def passes(self, nodes: int) -> float:
        """Have the resource tracker see to each node, as if it had more of them.

        :param nodes: how many providers Nova's report client is to know.
        :returns: seconds of processor time for a node.
        """
        from nova import context

        manager = self._service.manager
        tree, known = manager.rt.reportclient._provider_tree, list(manager.rt.compute_nodes)
        like = tree.data(known[0])
        for _ in range(nodes - len(tree.get_provider_uuids())):
            more = str(uuid.uuid4())
            tree.new_root(more, more, generation=like.generation)
            tree.update_inventory(more, like.inventory)
            tree.update_traits(more, like.traits)
            manager.rt.reportclient._association_refresh_time[more] = self._now

        def see_to_all() -> None:
            for node in known:
                manager._update_available_resource_for_node(context.get_admin_context(), node)

        return self._measured(see_to_all)["cpu"] / len(known)

    def _measured(self, action: Callable[[], None]) -> dict[str, float]:
        self._parts.taken()
        before = len(self._stage.counted.log)
        found = measure.times(action)
        figures = {"wall": found["wall"], "cpu": found["client_cpu"]}
        sent = Counter(line.partition(" ")[0] for line in self._stage.counted.log[before:])
        taken = self._parts.taken()
        for part in PARTS:
            for what in ("wall", "cpu"):
                figures[f"{part}_{what}"] = taken.get(part, {}).get(what, 0.0)
        figures["database_queries"] = taken.get(DATABASE, {}).get("entered", 0.0)
        for name in ("ironic", "placement"):
            figures[f"{name}_requests"] = float(sent[name])
        return figures

    def offered(self) -> dict[str, int]:
        """How much of each resource class Placement takes for free, reserved ones not."""
        found: Counter[str] = Counter()
        for provider in self._stage._get_all_providers():
            inventory = self._stage._get_provider_inventory(provider["uuid"])
            for name, stock in inventory.items():
                found[name] += stock["total"] - stock["reserved"]
        return dict(found)

    def close(self) -> None:
        """Stop all of it."""
        self._stage.doCleanups()


def _asks_the_database(one: type, name: str) -> bool:
    """Whether a class's attribute is what nova-compute would ask the conductor to do."""
    found = vars(one)[name]
    function = getattr(found, "__func__", found)
    return bool(getattr(function, "remotable", False))
