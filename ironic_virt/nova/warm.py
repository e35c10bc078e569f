# SPDX-License-Identifier: Apache-2.0

"""A nova-compute that starts again goes on with what the last process knew.

One file in ``[DEFAULT] state_path`` has each settled node's resource provider as Placement has
it at a generation, and which servers the host had.  It may be of any age: a provider with the
same generation is the same.  A node is taken over if its provider and its record are what a
whole pass would write.  Like :mod:`ironic_virt.nova.tracker`, this fills private parts of Nova.

The file holds no secrets.  What can't be read or written costs time, nothing else.
"""

from __future__ import annotations

import copy
import datetime
import hashlib
import json
import os
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

import msgspec
from nova import conf, objects
from nova.scheduler.client import report
from oslo_log import log as logging

from ironic_virt.nova.settled import Pass, Period

LOG = logging.getLogger(__name__)

_COUNTED = re.compile("num_.*|io_workload|uptime|failed_builds")
"""Names in a record's ``stats`` that are Nova's."""
_RECORDED = re.compile("reserved_host_.*|(?:cpu|ram|disk)_allocation_ratio")
"""Nova's options that a pass writes into records."""
_RUNNING = metadata.version("nova"), metadata.version("ironic-virt")  # Others may be installed.


class Provider(msgspec.Struct, frozen=True, array_like=True):
    """A resource provider at a generation; ``consumers`` have allocations there."""

    generation: int
    inventory: dict[str, dict[str, int | float]]
    traits: frozenset[str]
    aggregates: frozenset[str]
    consumers: frozenset[str]


class WarmState(msgspec.Struct, frozen=True):
    """What the file holds.

    :ivar made_by: releases of Nova and this package, a digest of options and ``provider.yaml``.
    :ivar since: servers that were written after this may have changed; in UTC.
    :ivar servers: uuids of the host's.
    :ivar providers: by the node's name, which is the provider's uuid unless it is a pool.
    """

    made_by: tuple[str, ...]
    host: str
    since: datetime.datetime
    servers: frozenset[str]
    providers: dict[str, Provider]

    def nodes(self) -> dict[str, str]:
        """The nodes at which servers had allocations."""
        return {
            uuid: name for name, provider in self.providers.items() for uuid in provider.consumers
        }


def made_by(rt: Any) -> tuple[str, ...]:
    """What a pass writes depends on this, in addition to the driver's answers.

    :param rt: Nova's resource tracker.
    """
    options = {name: conf.CONF[name] for name in conf.CONF if _RECORDED.fullmatch(name)}
    configs = json.dumps([options, rt.provider_configs], sort_keys=True, default=str)
    return *_RUNNING, hashlib.sha256(configs.encode()).hexdigest()


def list_generations(client: Any, context: Any) -> dict[str, int]:
    """The generations of the compute nodes' providers in Placement, by uuid.

    :raises OSError: Placement refuses; it may raise other errors when it does not answer.
    """
    answer = client.get(
        "/resource_providers?required=COMPUTE_NODE",
        version="1.22",
        global_request_id=context.global_id,
    )
    if answer.status_code != 200:
        raise OSError(f"{answer.status_code} {answer.text}")
    providers = answer.json()["resource_providers"]
    return {provider["uuid"]: provider["generation"] for provider in providers}


def state_path(directory: str, host: str) -> str:
    """The file of a host."""
    return os.path.join(directory, f"ironic-virt-{urllib.parse.quote(host, safe='')}.json")


def load_state(path: str, rt: Any) -> WarmState | None:
    """What the last process has left, if this one can use it."""
    try:
        with open(path, "rb") as file:
            state = msgspec.json.decode(file.read(), type=WarmState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as exc:
        LOG.info("%s is of no use (%s). All nodes are looked at", path, exc)
        return None
    return state if (state.made_by, state.host) == (made_by(rt), rt.host) else None


def save_state(path: str, state: WarmState) -> None:
    """Write the file, whole or not at all.

    :raises OSError: it can't be written.
    """
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(msgspec.json.encode(state))
    os.replace(fresh, path)


class WarmStart:
    """Takes over nodes, while the service starts.

    :param rt: Nova's resource tracker.
    :param offered: see :func:`.tracker.install_passes`.
    :ivar count: of nodes that were taken over.
    """

    def __init__(self, rt: Any, state: WarmState, offered: Callable[[str], Any]) -> None:
        self._rt = rt
        self._client = rt.reportclient
        self._state = state
        self._offered = offered
        self.count = 0
        self._lock = threading.Lock()
        self._listed: tuple[Mapping[str, int], frozenset[str]] | None = None
        self._records: dict[str, Any] | None = None
        self._added: frozenset[str] | None = None

    def allocations(self, context: Any, uuid: str) -> Any:
        """The allocations at a provider, for Nova's look for interrupted builds.

        Each new allocation makes a new generation; one that is deleted does not.  So the
        consumers are these or fewer, and Nova looks for those only that are not its host's.

        :returns: ``None``: Placement has to be asked.
        """
        provider = self._state.providers.get(uuid)
        if provider is None:
            return None
        if self._listed is None:
            servers = objects.InstanceList.get_uuids_by_host(context, self._rt.host)
            self._listed = list_generations(self._client, context), frozenset(servers)
        generations, servers = self._listed
        if generations.get(uuid) != provider.generation or not provider.consumers <= servers:
            return None
        return report.ProviderAllocInfo(allocations={uuid: {} for uuid in provider.consumers})

    def learn(self, nodename: str) -> None:
        """Learn from a node after a whole pass which traits Nova adds to the driver's."""
        record = self._rt.compute_nodes.get(nodename)
        if self._added is None and record is not None and self._rt.pci_tracker is not None:
            offer, _, _ = self._offered(nodename)
            traits = self._client._provider_tree.data(record.uuid).traits
            self._added = frozenset(traits - offer.traits)

    def take_over(self, context: Any, nodename: str, period: Period) -> frozenset[str] | None:
        """Let Nova hold a node as if it had made a pass, which would change nothing.

        :returns: the consumers at the node; ``None``: it needs a whole pass.
        """
        if self._added is None or period.touched is None or nodename in period.touched:
            return None
        with self._lock:
            if self._records is None:
                self._records = self._prepare(context, period.generations or {})
        record = self._records.get(nodename)
        if record is None or nodename in self._rt.compute_nodes:
            return None
        provider = self._state.providers[nodename]
        offer, resource, zones = self._offered(nodename)
        if not (
            provider.inventory == offer.inventory
            and provider.traits == offer.traits | self._added
            and provider.consumers <= period.servers
            and zones.aggregates(provider.aggregates) == provider.aggregates
            and _is_as_reported(record, resource)
        ):
            return None
        tree = self._client._provider_tree
        tree.update_inventory(record.uuid, provider.inventory)
        tree.update_traits(record.uuid, provider.traits)
        tree.update_aggregates(record.uuid, provider.aggregates)
        self._client._association_refresh_time[record.uuid] = time.time()
        stats = self._rt.stats[nodename]
        stats["failed_builds"] = 0
        stats.digest_stats(dict(resource["stats"]))
        record.obj_reset_changes()
        self._rt.old_resources[nodename] = copy.deepcopy(record)
        self._rt.compute_nodes[nodename] = record
        self.count += 1
        return provider.consumers

    def _prepare(self, context: Any, generations: Mapping[str, int]) -> dict[str, Any]:
        """Read this host's records; fill Nova's cache with the providers that are the same."""
        rt, tree, known = self._rt, self._client._provider_tree, self._state.providers
        records = {
            name: record
            for record in objects.ComputeNodeList.get_all_by_host(context, rt.host)
            if (name := record.hypervisor_hostname) in known
            and record.service_id == rt.service_ref.id
            and known[name].generation == generations.get(record.uuid)
            and not tree.exists(record.uuid)
        }
        tree.populate_from_iterable(
            [
                {
                    "uuid": record.uuid,
                    "name": name,
                    "generation": known[name].generation,
                    "parent_provider_uuid": None,
                }
                for name, record in records.items()
            ]
        )
        return records


def _is_as_reported(record: Any, resource: Mapping[str, Any]) -> bool:
    """Whether a record says what the driver reports; what is counted of servers is Nova's."""
    stats = {name: value for name, value in record.stats.items() if not _COUNTED.fullmatch(name)}
    specs = [tuple(spec.to_list()) for spec in record.supported_hv_specs or ()]
    names = ("uuid", "hypervisor_type", "hypervisor_version", "hypervisor_hostname")
    return (
        all(getattr(record, name) == resource[name] for name in names)
        and specs == resource["supported_instances"]
        and record.stats.get("failed_builds", "0") == "0"
        and stats == resource["stats"]
    )


class Keeper:
    """Writes the file when there is something new.

    :param path: of the file.
    :param rt: Nova's resource tracker.
    """

    def __init__(self, path: str, rt: Any) -> None:
        self._path = path
        self._rt = rt
        self._client = rt.reportclient
        self._passes: Mapping[str, Pass] = {}
        self._providers: dict[str, Provider] = {}
        self._failing = False

    def keep(
        self, passes: Mapping[str, Pass], servers: frozenset[str], since: datetime.datetime
    ) -> None:
        """Keep what the clean passes of a period have seen.

        :param servers: of the host.
        :param since: servers that were written later have perhaps not been seen.
        """
        if passes == self._passes:
            return
        self._passes = passes
        providers = {
            name: provider
            for name, clean in passes.items()
            if not clean.inputs.failed_builds
            and (provider := self._provider(self._providers.get(name), clean)) is not None
        }
        self._providers = providers
        try:
            state = WarmState(made_by(self._rt), self._rt.host, since, servers, providers)
            save_state(self._path, state)
            self._failing = False
        except OSError as exc:
            if not self._failing:
                LOG.warning(
                    "[state-not-written] Can't write %s: %s. The next start takes longer",
                    self._path,
                    exc,
                )
            self._failing = True

    def _provider(self, last: Provider | None, clean: Pass) -> Provider | None:
        generation = clean.outcome.generation
        if last is not None and (last.generation, last.consumers) == (generation, clean.consumers):
            return last
        try:
            data = self._client._provider_tree.data(clean.outcome.uuid)
        except ValueError:
            return None
        if generation is None or data.generation != generation:
            return None
        traits, aggregates = frozenset(data.traits), frozenset(data.aggregates)
        return Provider(generation, data.inventory, traits, aggregates, clean.consumers)
