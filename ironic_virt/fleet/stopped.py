# SPDX-License-Identifier: Apache-2.0

"""Which services are stopped: forced down, silent while watched, and without an answer over RPC.

What counts is whether a service's row stays as it is for as long as it takes to report twice,
not how old its last report is: this machine may have another clock and interval.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Mapping
from concurrent import futures

from ironic_virt.fleet.deployment import Service

SLICE = 1.0
"""Seconds between two lines about how far the watch is."""


@dataclasses.dataclass(frozen=True)
class Watched:
    """What a watch has shown.

    :ivar services: the stopped services, by host; ``None``: the host has no service.
    :ivar running: by host, why a service is not stopped.
    :ivar unasked: hosts that could not be asked over RPC.
    """

    services: Mapping[str, Service | None] = dataclasses.field(default_factory=dict)
    running: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unasked: Collection[str] = ()

    def why_running(self, host: str, service: Service | None) -> str | None:
        """Why a host's service, as it is now, does not count as stopped; ``None``: it does."""
        if host in self.services and _pulse(self.services[host]) == _pulse(service):
            return None
        if service is not None and not service.forced_down:
            return f"stop nova-compute on {host}, and force it down"
        return self.running.get(host, f"{host} has reported again; stop it")


def _pulse(service: Service | None) -> tuple[object, ...] | None:
    """What stays as it is while a service is stopped."""
    if service is None:
        return None
    return service.id, service.forced_down, service.last_seen, service.reports


def watch(
    read: Callable[[], Mapping[str, Service]],
    ping: Callable[[str], bool | None],
    hosts: Collection[str],
    intervals: Mapping[str, float],
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Watched:
    """Watch services that are forced down, or were deleted, all at once."""
    services = read()
    first = {
        host: service
        for host in hosts
        if (service := services.get(host)) is None or service.forced_down
    }
    with futures.ThreadPoolExecutor(len(first) or 1) as pool:
        answers = dict(zip(first, pool.map(ping, first), strict=True))
    running = {host: f"{host} answers over RPC; stop it" for host in first if answers[host]}
    for host, service in first.items():
        if answers[host] is None and (service is None or service.last_seen is None):
            running[host] = (
                f"{host} never reports and can't be asked over RPC, so it may be running"
            )
    silent = first.keys() - running.keys()
    spans = (
        max(service.interval, intervals.get(host, 0))
        for host, service in first.items()
        if service is not None and host in silent
    )
    seconds = 2 * max(spans, default=0)
    began = clock()
    while (spent := clock() - began) < seconds:
        progress("Watching services: seconds", int(spent), int(seconds))
        sleep(min(SLICE, seconds - spent))
    last = read() if silent else services
    for host in silent:
        if _pulse(last.get(host)) != _pulse(first[host]):
            running[host] = f"{host} has reported while it was watched; stop it"
    return Watched(
        {host: first[host] for host in first.keys() - running.keys()},
        running,
        sorted(host for host in silent if answers[host] is None),
    )
