# SPDX-License-Identifier: Apache-2.0

"""Keeps Nova's resource tracker from passing over all nodes again each minute.

This module, with :mod:`~ironic_virt.nova.subtree` and :mod:`~ironic_virt.nova.warm`, touches
private parts of Nova: attributes of the resource tracker and of its report client, and methods
that it replaces on these two objects.  :func:`unknown_parts` names them, and where one is not as
known nothing is replaced.
What a pass does is Nova's code, unchanged; :mod:`ironic_virt.nova.settled` decides when.

Nova's threads call it, several at once with ``[compute] update_resources_max_workers``.  What
is read once a period is read by the first of them, while the others wait.
"""

from __future__ import annotations

import collections
import datetime
import inspect
import re
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from nova import context as nova_context
from nova import exception, objects
from nova.compute import resource_tracker
from nova.scheduler.client import report
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import timeutils

from ironic_virt import virt
from ironic_virt.nova import subtree, warm
from ironic_virt.nova.settled import (
    CachedNode,
    Inputs,
    Period,
    Server,
    Servers,
    SettledNodes,
    is_clean,
)
from ironic_virt.nova.virtapi import find_instances

LOG = logging.getLogger(__name__)

_WRITE = re.compile("/resource_providers/([^/]+)/(?:inventories|traits|aggregates)$")
_CLOCKS_APART = datetime.timedelta(seconds=120)
"""By so much may the clocks of those who write servers differ from this host's."""
_PAGE = 10
"""Servers' records in one answer: this many are read in each period, and more if they are new."""

_KNOWN: dict[Callable[..., Any], list[str]] = {
    resource_tracker.ResourceTracker.update_available_resource: ["context", "nodename", "startup"],
    report.SchedulerReportClient.get: ["url", "version", "global_request_id"],
    report.SchedulerReportClient.put: ["url", "data", "version", "global_request_id"],
    report.SchedulerReportClient.get_allocations_for_resource_provider: ["context", "rp_uuid"],
}

_TREE = (
    *("data", "exists", "populate_from_iterable"),
    *("update_inventory", "update_traits", "update_aggregates"),
)


def unknown_parts(rt: Any) -> list[str]:
    """What of the resource tracker and its report client is not as this module knows it."""
    client = getattr(rt, "reportclient", None)
    attributes: list[tuple[Any, str, Any]] = [
        (rt, "compute_nodes", Mapping),
        (rt, "old_resources", Mapping),
        (rt, "stats", Mapping),
        (rt, "monitors", Collection),
        (rt, "pci_tracker", object),
        (rt, "host", str),
        (rt, "provider_configs", Mapping),
        (rt, "service_ref", object),
        (client, "_association_refresh_time", Mapping),
        *((getattr(client, "_provider_tree", None), name, Callable) for name in _TREE),
    ]
    return [
        method.__qualname__
        for method, known in _KNOWN.items()
        if list(inspect.signature(method).parameters)[1:] != known
    ] + [
        name
        for owner, name, kind in attributes
        if not hasattr(owner, name) or not isinstance(getattr(owner, name), kind)
    ]


def install_passes(
    rt: Any, conf: cfg.ConfigOpts, offered: Callable[[str], Any], metrics: virt.Metrics
) -> None:
    """Have Nova pass over settled nodes, and see one node at a time in older releases.

    :param rt: Nova's resource tracker.
    :param conf: Nova's.
    :param offered: what the driver offers and reports of a node, and the state of its
        aggregates; it may raise.
    """
    if "update_available_resource" in vars(rt):
        return
    if conf.ironic.node_refresh == "all":
        LOG.debug("All nodes are looked at in each period")
    elif unknown := unknown_parts(rt):
        LOG.warning(
            "[settled-unavailable] This Nova differs from those that the driver knows (%s). "
            "All nodes are looked at in each period, as with [ironic] node_refresh = all",
            ", ".join(unknown),
        )
    else:
        nodes = SettledNodes(conf.ironic.settled_max_age)
        NodePasses(rt, offered, nodes, metrics, warm.state_path(conf.state_path, rt.host))
    if subtree.NEEDED:
        rt.reportclient = subtree.NodeReportClient(rt.reportclient)


class NodePasses:
    """Stands where the resource tracker's own ``update_available_resource`` was.

    :param rt, offered: see :func:`install_passes`.
    :param path: of the file with what this process leaves to the next one.
    """

    def __init__(
        self,
        rt: Any,
        offered: Callable[[str], Any],
        nodes: SettledNodes,
        metrics: virt.Metrics,
        path: str,
    ) -> None:
        self._rt = rt
        self._offered = offered
        self._nodes = nodes
        self._metrics = metrics
        self._servers = Servers()
        self._lock = threading.Lock()
        self._context: Any = None
        self._asked: set[str] = set()
        self._since: Any = None
        self._write_lock = threading.Lock()
        self._writes: collections.Counter[str] = collections.Counter()
        self._consumers: dict[str, frozenset[str]] = {}
        self._client = client = rt.reportclient
        self._keeper = warm.Keeper(path, rt)
        self._warm: warm.WarmStart | None = None
        state = warm.load_state(path, rt)
        if state is not None:
            self._since = state.since
            self._servers.restore(state.servers, state.nodes())
            self._warm = warm.WarmStart(rt, state, offered)
        self._pass = rt.update_available_resource
        self._put = client.put
        self._get_allocations = client.get_allocations_for_resource_provider
        rt.update_available_resource = self.update_available_resource
        client.put = self._counted_put
        client.get_allocations_for_resource_provider = self._noted_allocations

    def update_available_resource(
        self, context: Any, nodename: str, startup: bool = False
    ) -> None:
        """Pass over a settled node; let Nova pass any other one.

        What Nova raises passes; such a node is not settled.
        """
        with self._lock:
            # A context is a period's; a node that is asked for twice begins one, too.
            if context is not self._context or nodename in self._asked:
                self._begin(context)
            self._asked.add(nodename)
        period = self._nodes.period
        inputs, outcome = self._inputs(nodename, period), self._outcome(nodename)
        is_current = outcome is not None and self._nodes.is_current(nodename, outcome)
        reason = self._nodes.reason(nodename, inputs, outcome, starts=startup)
        if reason is None or (inputs and self._is_taken_over(context, nodename, inputs, period)):
            self._metrics.node_pass(None)
            return
        self._metrics.node_pass(reason)
        if outcome is not None:
            self._consumers.pop(outcome.uuid, None)
            if not is_current:
                # By itself Nova would look at Placement after minutes only.
                self._client._association_refresh_time.pop(outcome.uuid, None)
        try:
            self._pass(context, nodename, startup=startup)
        except exception.PlacementPciException as exc:
            if not startup:
                raise
            # Nova takes it for wrong options of PCI devices, and would end the process.
            LOG.error(
                "[inventory-in-use] Node %s is not reported to Placement: %s. The others are",
                *(nodename, exc),
            )
            return
        outcome = self._outcome(nodename)
        if outcome is None or inputs is None or inputs != self._inputs(nodename, period):
            return
        if self._warm is not None:
            self._warm.learn(nodename)
        consumers = self._consumers.get(outcome.uuid)
        if consumers is not None and is_clean(
            outcome, period, self._writes[outcome.uuid], consumers
        ):
            self._nodes.keep(nodename, inputs, outcome, consumers)

    def _begin(self, context: Any) -> None:
        if (last := self._nodes.period).generations is not None:
            self._keeper.keep(self._nodes.passes(), last.servers, self._since)
        if self._warm is not None and self._context is not None:
            LOG.info("%d nodes are unchanged since the last process", self._warm.count)
            self._warm = None
        self._context, self._asked = context, set()
        self._nodes.begin(self._read(context))
        self._metrics.oldest_pass(self._nodes.oldest())

    def _is_taken_over(self, context: Any, nodename: str, inputs: Inputs, period: Period) -> bool:
        if self._warm is None:
            return False
        try:
            consumers = self._warm.take_over(context, nodename, period)
        except Exception as exc:
            LOG.info("Node %s is not taken over: %s", nodename, exc)
            return False
        outcome = self._outcome(nodename)
        if consumers is None or outcome is None:
            return False
        self._nodes.keep(nodename, inputs, outcome, consumers, earliest=0.0)
        return True

    # -- what is read once a period -------------------------------------------

    def _read(self, context: Any) -> Period:
        try:
            return Period(
                self._generations(context),
                self._is_disabled(context),
                *self._look_at_servers(context),
            )
        except Exception as exc:
            LOG.warning(
                "[nova-not-asked] Can't ask Nova which nodes have changed: %s. "
                "All nodes are looked at in this period",
                exc,
            )
            return Period()

    def _generations(self, context: Any) -> Mapping[str, int] | None:
        try:
            generations = warm.list_generations(self._client, context)
        except Exception as exc:
            LOG.warning(
                "[placement-not-listed] Placement does not list its resource providers: %s. "
                "Until it does, unchanged nodes are not compared with it",
                exc,
            )
            return None
        with self._write_lock:
            # Writes before this may be in the list or not.
            self._writes.clear()
        return generations

    def _is_disabled(self, context: Any) -> bool | None:
        try:
            return bool(objects.Service.get_by_compute_host(context, self._rt.host).disabled)
        except exception.NotFound:
            return None

    def _look_at_servers(self, context: Any) -> tuple[frozenset[str], frozenset[str] | None]:
        since = timeutils.utcnow() - _CLOCKS_APART
        uuids = frozenset(objects.InstanceList.get_uuids_by_host(context, self._rt.host))
        written = self._written_since(self._since or since)
        touched = self._servers.touched(uuids, written, _nodes_of, self._nodes.with_consumer)
        self._since = since
        return uuids, touched

    def _written_since(self, since: datetime.datetime) -> list[Server]:
        """The host's servers that were written last, deleted ones too.

        Nova's filter by time does not work from here: a time in it becomes text on its way to
        the conductor.
        """
        written: list[Server] = []
        marker = None
        while True:
            page = objects.InstanceList.get_by_filters(
                nova_context.get_admin_context(read_deleted="yes"),
                {"host": self._rt.host},
                sort_key="updated_at",
                sort_dir="desc",
                limit=_PAGE,
                marker=marker,
                expected_attrs=[],
            )
            fresh = [
                server
                for server in page
                if timeutils.normalize_time(server.updated_at or server.created_at) >= since
            ]
            written += map(_server, fresh)
            if len(fresh) < _PAGE:
                return written
            marker = page[-1].uuid

    # -- a node as Nova holds it ----------------------------------------------

    def _inputs(self, nodename: str, period: Period) -> Inputs | None:
        rt = self._rt
        if rt.monitors or (rt.pci_tracker and rt.pci_tracker.pci_devs):
            # These change by themselves.
            return None
        stats = rt.stats.get(nodename, {})
        try:
            offered = self._offered(nodename)
        except Exception as exc:
            LOG.debug("Can't tell what node %s offers: %s", nodename, exc)
            return None
        return Inputs(offered, period.disabled, stats.get("failed_builds", 0))

    def _outcome(self, nodename: str) -> CachedNode | None:
        record = self._rt.compute_nodes.get(nodename)
        if record is None:
            return None
        saved = self._rt.old_resources.get(nodename)
        try:
            provider = self._client._provider_tree.data(record.uuid)
        except ValueError:
            return CachedNode(record.uuid, None, False, saved)
        disabled = "COMPUTE_STATUS_DISABLED" in provider.traits
        return CachedNode(record.uuid, provider.generation, disabled, saved)

    # -- what Nova sends to Placement -----------------------------------------

    def _counted_put(self, url: str, *args: Any, **kwargs: Any) -> Any:
        answer = self._put(url, *args, **kwargs)
        write = _WRITE.fullmatch(url)
        if write and answer is not None and answer.status_code == 200:
            with self._write_lock:
                self._writes[write[1]] += 1
        return answer

    def _noted_allocations(self, context: Any, rp_uuid: str) -> Any:
        if self._warm is not None and self._context is None:
            # Nova looks for interrupted builds before its first period.
            try:
                answer = self._warm.allocations(context, rp_uuid)
            except Exception as exc:
                LOG.info("Can't use what the last process knew: %s", exc)
                self._warm = None
            else:
                if answer is not None:
                    return answer
        answer = self._get_allocations(context, rp_uuid)
        self._consumers[rp_uuid] = frozenset(answer.allocations)
        return answer


def _server(instance: Any) -> Server:
    written = (instance.updated_at, instance.deleted_at)
    return Server(
        instance.uuid, instance.node or "", (*written, instance.vm_state, instance.task_state)
    )


def _nodes_of(uuids: Collection[str]) -> Mapping[str, str]:
    return {instance.uuid: instance.node or "" for instance in find_instances(uuids)}
