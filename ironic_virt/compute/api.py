# SPDX-License-Identifier: Apache-2.0

"""Asking the reference service for things: what ``ironic-virt`` does, for programs.

A request is written into the records, in one transaction each, and is complete
then: the service that has the instance carries it out, now or when it is up
again.  Whoever wants to know what became of it waits; nothing depends on that.

It needs the database and no service, and may be used from any thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from oslo_config import cfg

from ironic_virt import exceptions, virt
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.errors import (
    ClaimLost,
    ComputeNodeNotFound,
    InvalidRequest,
    NoSuchInstance,
    RequestTimeout,
)
from ironic_virt.compute.obstacles import explained
from ironic_virt.compute.verbs import BY_NAME, CREATE, DELETE, LONGEST_NAME, check_port
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import CandidateSource, ComputeNodeLike, RecordList
from ironic_virt.scheduler.filter_scheduler import FilterScheduler

LARGEST_USER_DATA = 64 * 1024
"""Characters or bytes of user data that fit on a config drive in Ironic's default limits."""

# The first look comes soon, since many requests end at once; later ones cost the records less.
_FIRST_LOOK_SECONDS = 0.1
_LOOK_SECONDS = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Something that was asked for.

    :param instance: as it was right after that; ``request_id`` is this one's.
    :param verb: the name of a row of :mod:`ironic_virt.compute.verbs`.
    """

    instance: records.Instance
    verb: str


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request.

    :param instance: as it is now, or was before it was deleted.
    :param error: why it failed, in one line; ``None``: it worked.
    """

    request: Request
    instance: records.Instance
    error: str | None = None


class Requests:
    """What can be asked of the reference service.

    :param conf: with ``[scheduler]``, as :func:`ironic_virt.conf.database.load` has it.
    :param database: opened.
    :param scheduler: chooses nodes; by default the one that ``conf`` describes.
    :param source: where it finds them; by default the database.
    :param wake: called after each request; for a service in this process.
    :param clock: monotonic, in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        *,
        scheduler: FilterScheduler | None = None,
        source: CandidateSource | None = None,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._conf = conf
        self._db = database
        self._scheduler = scheduler
        self._source = source
        self._wake = wake
        self._clock = clock
        self._sleep = sleep
        self._new_uuid = new_uuid

    # -- asking ---------------------------------------------------------------

    def create(
        self, wanted: records.NewInstance, *, least: int = 1, most: int | None = None
    ) -> list[Request]:
        """Ask for instances that are alike: choose nodes, claim them, have them built.

        Several are called ``name-1``, ``name-2`` and so on.  ``least`` of them are written
        down in one transaction, or none: if there are not enough nodes, nothing is.

        :param wanted: its uuid is the first instance's.
        :param most: how many to build if there are nodes; ``least`` by default.
        :returns: the requests; at least ``least``.
        :raises NoValidHost: there are nodes for fewer than ``least``; it says filter by
            filter why, and nothing was written.
        :raises InvalidRequest: something of it can't be; nothing was written.
        :raises InvalidExtraSpec: the flavor asks for something in an unknown form;
            nothing was written.
        :raises InstanceExists: the uuid is taken.
        :raises ComputeNodeNotFound: there is no record of the node that is asked for.
        """
        most = least if most is None else most
        _check(wanted, least, most)
        for port in wanted.ports:
            if other := self._db.instances.instance_of_port(port.id):
                raise InvalidRequest(f"server {other} has the port {port.id}")
        check_flavor(wanted.flavor)
        spec = RequestSpec.from_flavor(wanted.flavor, image=wanted.image)
        source = self._source or self._db.candidates
        if wanted.requested_node is not None:
            source = self._only(wanted.requested_node)
        scheduler = self._scheduler or FilterScheduler.from_conf(self._conf)
        self._scheduler = scheduler
        try:
            if most == 1:
                requests = [self._create_one(scheduler, source, spec, self._identified(wanted))]
            else:
                requests = self._create_several(scheduler, source, spec, wanted, least, most)
        except exceptions.NoValidHost as nowhere:
            raise explained(self._db, nowhere, spec, wanted.requested_node) from None
        self._wake()
        return requests

    def ask(self, verb: str, instance: str, **arguments: Any) -> Request:
        """Ask for something of an instance that exists.

        :param verb: the name of a row of :mod:`ironic_virt.compute.verbs`: ``delete``,
            ``start``, ``stop``, ``reboot``, ``hard_reboot``, ``rebuild``, ``rescue``,
            ``unrescue``, ``attach_interface``, ``detach_interface`` or ``trigger_crash_dump``.
            A delete supersedes whatever else is wanted; an instance without a host is
            deleted at once.
        :param instance: its uuid, or its name if no other has that.
        :param arguments: ``image`` (an :class:`~ironic_virt.virt.ImageMeta`; by default the
            one that it has) and ``preserve_ephemeral`` of a rebuild; ``password`` of a rescue,
            never logged, and forgotten when that is done; ``vif``, the id of a port, of the
            verbs about interfaces.
        :raises InvalidRequest: an argument can't be right; nothing was written.
        :raises NoSuchInstance: no instance has this uuid or name.
        :raises AmbiguousName: several instances have this name.
        :raises ConflictingRequest: not in the instance's present state; nothing was written.
        """
        row = BY_NAME[verb]
        row.check(arguments)
        found = self._db.instances.get(instance)
        request_id = f"req-{self._new_uuid()}"
        asked = self._db.instances.request(
            found.uuid, row.task, _plain(arguments), request_id=request_id
        )
        self._wake()
        return Request(asked, row.name)

    # -- waiting --------------------------------------------------------------

    def wait(
        self,
        requests: Iterable[Request],
        told: Callable[[records.Instance], None] = lambda _instance: None,
        ended: Callable[[Outcome], None] = lambda _outcome: None,
        *,
        timeout: float | None = None,
    ) -> list[Outcome]:
        """Wait until each of them has ended.

        :param told: called with an instance each time that its record has changed.
        :param ended: called with each outcome as it is known.
        :param timeout: in seconds.
        :returns: in the order of ``requests``.
        :raises RequestTimeout: some had not ended by then; what was asked for still holds.
        """
        requests = list(requests)
        outcomes: dict[int, Outcome] = {}
        seen: dict[int, records.Instance] = {}
        deadline = None if timeout is None else self._clock() + timeout
        pause = _FIRST_LOOK_SECONDS
        while True:
            for number, request in enumerate(requests):
                if number in outcomes:
                    continue
                instance = self._look(request, seen.get(number))
                if seen.get(number) != instance:
                    seen[number] = instance
                    told(instance)
                if (outcome := _outcome(request, instance)) is not None:
                    outcomes[number] = outcome
                    ended(outcome)
            if len(outcomes) == len(requests):
                return [outcomes[number] for number in range(len(requests))]
            left = pause if deadline is None else deadline - self._clock()
            if left <= 0:
                late = [seen[number] for number in range(len(requests)) if number not in outcomes]
                raise RequestTimeout([instance.uuid for instance in late], timeout or 0)
            self._sleep(min(left, pause))
            pause = min(pause * 1.5, _LOOK_SECONDS)

    def down(self, requests: Iterable[Request]) -> Sequence[str]:
        """The hosts that have to carry requests out and are not up now."""
        up = set(self._db.services.up())
        instances = [request.instance for request in requests]
        hosts = {one.host for one in instances if one.host is not None and one.task_state}
        return sorted(hosts - up)

    def node_name(self, node: str) -> str:
        """Ironic's own name of a node, or its uuid if it has none, or no record."""
        try:
            return self._db.compute_nodes.get(node).name or node
        except ComputeNodeNotFound:
            return node

    # -- within ---------------------------------------------------------------

    def _each(self, wanted: records.NewInstance, count: int) -> Iterator[records.NewInstance]:
        """So many instances, made when their turn comes: there may be far fewer nodes."""
        for number in range(1, count + 1):
            name = f"{wanted.display_name}-{number}" if wanted.display_name else None
            new_uuid = wanted.uuid if number == 1 else self._new_uuid()
            yield self._identified(dataclasses.replace(wanted, display_name=name, uuid=new_uuid))

    def _identified(self, new: records.NewInstance) -> records.NewInstance:
        request_id = new.request_id or f"req-{self._new_uuid()}"
        return dataclasses.replace(new, request_id=request_id)

    def _only(self, node: str) -> CandidateSource:
        """A node that somebody has chosen, if it is free and its service is up and enabled."""
        usable = {one.host for one in self._db.services.list() if not one.disabled}
        hosts = usable.intersection(self._db.services.up())
        return RecordList([self._db.compute_nodes.get(node)], hosts)

    def _create_one(
        self,
        scheduler: FilterScheduler,
        source: CandidateSource,
        spec: RequestSpec,
        new: records.NewInstance,
    ) -> Request:
        """Create an instance on the best node whose claim can be written."""
        for host in scheduler.ranked(spec, source):
            with contextlib.suppress(ClaimLost):
                record = self._db.instances.create_building(new, host.record)
                return Request(record, CREATE.name)
        raise AssertionError("the scheduler says that there is none by an error")

    def _create_several(
        self,
        scheduler: FilterScheduler,
        source: CandidateSource,
        spec: RequestSpec,
        wanted: records.NewInstance,
        least: int,
        most: int,
    ) -> list[Request]:
        """Create ``least`` instances or none, then as many more as there are nodes."""
        each = self._each(wanted, most)
        asked: list[records.NewInstance] = []
        made: dict[str, Request] = {}
        lost: set[str] = set()
        while len(made) < most:
            needed = max(least - len(made), 0)
            try:
                nodes = _choose(scheduler, source, spec, max(needed, 1), most - len(made))
            except exceptions.NoValidHost:
                if needed:
                    raise
                break
            asked += itertools.islice(each, max(0, len(made) + len(nodes) - len(asked)))
            waiting = [new for new in asked if new.uuid not in made]
            pairs = list(zip(waiting, nodes, strict=False))
            try:
                done = {one.uuid: one for one in self._db.instances.create_several(pairs, needed)}
                missed = {node.uuid for new, node in pairs if new.uuid not in done}
            except ClaimLost as error:
                done, missed = {}, {error.node}
            made |= {
                new.uuid: Request(done[new.uuid], CREATE.name)
                for new, _ in pairs
                if new.uuid in done
            }
            # The records tell by now who has got it; another source may not.
            spec = spec.without(missed & lost)
            lost |= missed
        return [made[new.uuid] for new in asked if new.uuid in made]

    def _look(self, request: Request, before: records.Instance | None) -> records.Instance:
        try:
            return self._db.instances.get(request.instance.uuid)
        except NoSuchInstance:
            return (before or request.instance).as_deleted()


def _outcome(request: Request, instance: records.Instance) -> Outcome | None:
    """What became of a request; ``None``: it goes on."""
    if instance.is_deleted:
        error = None if request.verb == DELETE.name else "the server was deleted meanwhile"
        return Outcome(request, instance, error)
    request_id = request.instance.request_id
    if instance.task_state is not None and instance.request_id == request_id:
        return None
    fault = instance.fault
    failed = fault is not None and fault.request_id == request_id
    return Outcome(request, instance, fault.message if fault and failed else None)


def _choose(
    scheduler: FilterScheduler, source: CandidateSource, spec: RequestSpec, least: int, most: int
) -> Sequence[ComputeNodeLike]:
    """Nodes for ``most`` instances, or for as many as there are.

    :raises NoValidHost: there are nodes for fewer than ``least``.
    """
    count = most
    while True:
        try:
            return [host.record for host in scheduler.select(spec, source, count)]
        except exceptions.NoValidHost as nowhere:
            if count == least:
                raise
            count = max(nowhere.found, least)


def check_flavor(flavor: virt.FlavorLike) -> None:
    """See that a flavor's extra specs can be read.

    :raises InvalidExtraSpec: one that is understood has an impossible value.
    """
    RequestSpec.from_flavor(flavor)
    if any(name.startswith("ironic:") for name in flavor.extra_specs):
        # The driver takes long to import, and most commands do without it.
        from ironic_virt.driver.deploy import steps

        steps.wanted(flavor)


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as JSON has them, without those that are not given."""
    return {
        name: records.plain(value) if isinstance(value, virt.ImageMeta) else value
        for name, value in arguments.items()
        if value is not None
    }


def _check(wanted: records.NewInstance, least: int, most: int) -> None:
    if not 1 <= least <= most:
        raise InvalidRequest(f"from {least} to {most} servers is not a range from 1")
    if len(f"{wanted.display_name or ''}-{most}") > LONGEST_NAME:
        raise InvalidRequest(f"the name is too long: at most {LONGEST_NAME} characters")
    if wanted.ports and most > 1:
        raise InvalidRequest("several servers can't share ports: create them one by one")
    if wanted.networks and most > 1:
        raise InvalidRequest("several servers can't share addresses: create them one by one")
    if wanted.networks and wanted.ports:
        raise InvalidRequest("a server has networks or ports, not both")
    if wanted.requested_node is not None and most > 1:
        raise InvalidRequest("several servers can't have the same node: create one")
    ids = [port.id for port in wanted.ports]
    for port in ids:
        check_port(port)
    if len(set(ids)) != len(ids):
        raise InvalidRequest("a port is named twice")
    if wanted.user_data is not None and len(wanted.user_data) > LARGEST_USER_DATA:
        raise InvalidRequest(
            f"the user data has {len(wanted.user_data)} "
            f"{'bytes' if isinstance(wanted.user_data, bytes) else 'characters'}, more than "
            f"{LARGEST_USER_DATA}"
        )
