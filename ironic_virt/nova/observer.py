# SPDX-License-Identifier: Apache-2.0

"""What a standby learns while it waits, so that it takes over as fast as a restart is.

A thread reads what :mod:`ironic_virt.nova.warm` keeps of resource providers: all of them once,
a few a second, and then those whose generation has changed.  Nothing is written but the file.
"""

from __future__ import annotations

import datetime
import threading
from typing import Any

from nova import context as nova_context
from nova import objects
from oslo_log import log as logging
from oslo_utils import timeutils

from ironic_virt.nova import warm

LOG = logging.getLogger(__name__)

_PERIOD = 60
"""Looks from one list of the providers to the next; there is a look each second."""
_MOST = 10
"""Providers that are read at each look, by four requests each."""
_VERSION = "1.22"
_UNSEEN = datetime.timedelta(seconds=600)
"""What was written later has perhaps not reached the records: the active one may have ended."""


class Observer:
    """Writes the file for the time when this process is the active one.

    :param rt: Nova's resource tracker.
    :param path: of the file.
    """

    def __init__(self, rt: Any, path: str) -> None:
        self._rt = rt
        self._client = rt.reportclient
        self._host = rt.host
        self._path = path
        self._ended = threading.Event()
        self._state = warm.WarmState((), rt.host, timeutils.utcnow(), frozenset(), {})
        self._wanted: dict[str, tuple[str, int]] = {}
        self._looks = 0

    def begin(self) -> None:
        """Look in a thread from now on; called once."""
        threading.Thread(target=self._run, name="ironic-virt-observer", daemon=True).start()

    def end(self) -> None:
        """Write the file no more; a look that goes on is not waited for."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(1):
            try:
                self.look()
            except Exception as exc:
                LOG.info("Can't read Placement: %s. Trying again", exc)
                self._looks = 0
                self._ended.wait(_PERIOD)

    def look(self) -> None:
        """Read a few providers; write the file once all are known."""
        if is_listed := self._looks % _PERIOD == 0:
            self._list()
        self._looks += 1
        names = list(self._wanted)[:_MOST]
        for name in names:
            uuid, generation = self._wanted.pop(name)
            provider = self._read(uuid)
            if provider is not None and provider.generation == generation:
                self._state.providers[name] = provider
        if (names or is_listed) and not (self._wanted or self._ended.is_set()):
            warm.save_state(self._path, self._state)

    def _list(self) -> None:
        context = nova_context.get_admin_context()
        since = timeutils.utcnow() - _UNSEEN
        servers = frozenset(objects.InstanceList.get_uuids_by_host(context, self._host))
        records = {
            record.hypervisor_hostname: record.uuid
            for record in objects.ComputeNodeList.get_all_by_host(context, self._host)
        }
        generations = warm.list_generations(self._client, context)
        known = self._state.providers
        same = {
            name: known[name]
            for name, uuid in records.items()
            if name in known and known[name].generation == generations.get(uuid)
        }
        self._state = warm.WarmState(warm.made_by(self._rt), self._host, since, servers, same)
        self._wanted = {
            name: (uuid, generations[uuid])
            for name, uuid in records.items()
            if name not in same and uuid in generations
        }

    def _read(self, uuid: str) -> warm.Provider | None:
        """A provider; ``None`` if it was written meanwhile."""
        answers: list[Any] = []
        for part in ("inventories", "traits", "aggregates", "allocations"):
            answer = self._client.get(f"/resource_providers/{uuid}/{part}", version=_VERSION)
            if answer.status_code != 200:
                return None
            answers.append(answer.json())
        generations = {answer["resource_provider_generation"] for answer in answers}
        if len(generations) > 1:
            return None
        inventories, traits, aggregates, allocations = answers
        return warm.Provider(
            generations.pop(),
            inventories["inventories"],
            frozenset(traits["traits"]),
            frozenset(aggregates["aggregates"]),
            frozenset(allocations["allocations"]),
        )
