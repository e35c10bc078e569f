# SPDX-License-Identifier: Apache-2.0

"""Asking the reference service for things: what ``ironic-virt`` does, for programs.

A request is written into the records, in one transaction each, and is complete
then: the service that has the instance carries it out, now or when it is up
again.  Whoever wants to know what became of it waits; nothing depends on that.

It needs the database and no service, and may be used from any thread.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from oslo_config import cfg

from ironic_virt import virt
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.db.compute_nodes import Place
from ironic_virt.compute.errors import ComputeNodeNotFound, InvalidRequest, RequestTimeout
from ironic_virt.compute.states import TaskState
from ironic_virt.compute.verbs import BY_NAME, LONGEST_NAME, UUID, check_port
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.filter_scheduler import FilterScheduler

LARGEST_USER_DATA = 64 * 1024
"""Characters or bytes of user data that fit on a config drive in Ironic's default limits."""

# The first look comes soon, since many requests end at once; later ones cost the records less.
_FIRST_LOOK_SECONDS = 0.1
_LOOK_SECONDS = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request.

    :param instance: as it is now, or was before it was deleted.
    :param error: why it failed, in one line; ``None``: it worked.
    """

    instance: records.Instance
    error: str | None = None


class Requests:
    """What can be asked of the reference service.

    What stands for a request is the instance as it was right after it, with its ``request_id``.

    :param conf: with ``[scheduler]``, as :func:`ironic_virt.conf.database.load` has it.
    :param database: opened.
    :param scheduler: chooses nodes; by default the one that ``conf`` describes.
    :param clock: monotonic, in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        *,
        scheduler: FilterScheduler | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._conf = conf
        self._db = database
        self._scheduler = scheduler
        self._clock = clock
        self._sleep = sleep
        self._new_uuid = new_uuid

    # -- asking ---------------------------------------------------------------

    def create(self, new: records.NewInstance, count: int = 1) -> Sequence[records.Instance]:
        """Ask for instances that are alike: choose nodes, claim them, have them built.

        Several are called ``name-1``, ``name-2`` and so on.  All of them are written down in one
        transaction, or none.

        :param new: its uuid is the first instance's.
        :raises NoValidHost: there are not enough nodes; it says filter by filter why, and
            nothing was written.
        :raises InvalidRequest: something of it can't be; nothing was written.
        :raises InvalidExtraSpec: the flavor asks for something in an unknown form;
            nothing was written.
        :raises InstanceExists: the uuid is taken.
        :raises ComputeNodeNotFound: there is no record of the node that is asked for.
        """
        _check(new, count)
        for port in new.ports:
            # Before nodes are looked for, or waited for.
            if other := self._db.instances.instance_of_port(port.id):
                raise InvalidRequest(f"server {other} has the port {port.id}")
        check_flavor(new.flavor)
        spec = RequestSpec.from_flavor(new.flavor, image=new.image)
        self._scheduler = self._scheduler or FilterScheduler.from_conf(self._conf)

        def build(places: Sequence[Place]) -> Sequence[records.Instance]:
            copies = self._copies(new, count)
            return self._db.instances.create_several(list(zip(copies, places, strict=True)))

        return self._db.candidates.claim(
            *(build, self._scheduler, spec, count), node=new.requested_node
        )

    def ask(self, verb: str, instance: str, **arguments: Any) -> records.Instance:
        """Ask for something of an instance that exists.

        :param verb: the name of a row of :mod:`ironic_virt.compute.verbs` but ``create``.
            A delete supersedes any other; an instance without a host is deleted at once.
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
        return self._db.instances.request(
            self._db.instances.get(instance).uuid,
            row.task,
            {name: value for name, value in arguments.items() if value is not None},
            request_id=f"req-{self._new_uuid()}",
        )

    # -- waiting --------------------------------------------------------------

    def wait(
        self,
        requests: Iterable[records.Instance],
        changed: Callable[[records.Instance], None] = lambda _instance: None,
        ended: Callable[[Outcome], None] = lambda _outcome: None,
        *,
        timeout: float | None = None,
    ) -> list[Outcome]:
        """Wait until each of them has ended.

        :param changed: called with an instance each time that its record has changed.
        :param ended: called with each outcome as it is known.
        :param timeout: in seconds.
        :returns: in the order of ``requests``.
        :raises RequestTimeout: some had not ended by then; what was asked for still holds.
        """
        requests = list(requests)
        going_on = dict(enumerate(requests))
        outcomes: dict[int, Outcome] = {}
        seen: dict[int, records.Instance] = {}
        deadline = None if timeout is None else self._clock() + timeout
        pause = _FIRST_LOOK_SECONDS
        while True:
            uuids = {request.uuid for request in going_on.values()}
            instances = self._db.instances.get_several(uuids)
            for number, request in list(going_on.items()):
                before = seen.get(number, request)
                instance = instances.get(before.uuid) or before.as_deleted()
                if seen.get(number) != instance:
                    seen[number] = instance
                    changed(instance)
                if (outcome := _outcome(request, instance)) is not None:
                    outcomes[number] = outcome
                    del going_on[number]
                    ended(outcome)
            if not going_on:
                return [outcomes[number] for number in range(len(requests))]
            remaining = pause if deadline is None else deadline - self._clock()
            if remaining <= 0:
                uuids = {seen[number].uuid for number in going_on}
                raise RequestTimeout(timeout, ", ".join(sorted(uuids)))
            self._sleep(min(remaining, pause))
            pause = min(pause * 1.5, _LOOK_SECONDS)

    def down(self, requests: Iterable[records.Instance]) -> Sequence[str]:
        """The hosts that have to carry requests out and are not up now."""
        hosts = {request.host for request in requests if request.task_state and request.host}
        return sorted(hosts.difference(self._db.services.up()))

    def node_name(self, node: str) -> str:
        """Ironic's own name of a node, or its uuid if it has none, or no record."""
        try:
            return self._db.compute_nodes.get(node).name or node
        except ComputeNodeNotFound:
            return node

    # -- within ---------------------------------------------------------------

    def _copies(self, new: records.NewInstance, count: int) -> Iterator[records.NewInstance]:
        for number in range(1, count + 1):
            name = new.display_name
            yield dataclasses.replace(
                new,
                display_name=f"{name}-{number}" if name and count > 1 else name,
                uuid=new.uuid if number == 1 else self._new_uuid(),
                request_id=new.request_id or f"req-{self._new_uuid()}",
            )


def _outcome(request: records.Instance, instance: records.Instance) -> Outcome | None:
    """What became of a request; ``None``: it goes on."""
    if instance.is_deleted:
        was_wanted = request.is_deleted or request.task_state == TaskState.DELETING
        return Outcome(instance, None if was_wanted else "the server was deleted meanwhile")
    if instance.task_state is not None and instance.request_id == request.request_id:
        return None
    fault = instance.fault
    failed = fault is not None and fault.request_id == request.request_id
    return Outcome(instance, fault.message if fault and failed else None)


def check_flavor(flavor: virt.FlavorLike) -> None:
    """See that a flavor's extra specs can be read.

    :raises InvalidExtraSpec: one that is understood has an impossible value.
    """
    RequestSpec.from_flavor(flavor)
    if any(name.startswith("ironic:") for name in flavor.extra_specs):
        # The driver takes long to import, and most commands do without it.
        from ironic_virt.driver.deploy import steps

        steps.read_steps(flavor)


def _check(new: records.NewInstance, count: int) -> None:
    if count < 1:
        raise InvalidRequest(f"{count} servers can't be created")
    if len(f"{new.display_name or ''}-{count}") > LONGEST_NAME:
        raise InvalidRequest(f"the name is too long: at most {LONGEST_NAME} characters")
    if UUID.fullmatch(new.display_name or ""):
        raise InvalidRequest("a server's name can't have the form of a UUID")
    alone = {"ports": new.ports, "addresses": new.networks, "a node": new.requested_node}
    for kind, value in alone.items():
        if value and count > 1:
            raise InvalidRequest(f"several servers can't share {kind}: create them one by one")
    if new.networks and new.ports:
        raise InvalidRequest("a server has networks or ports, not both")
    for objection in filter(None, (network.objection() for network in new.networks)):
        raise InvalidRequest(objection)
    for port in new.ports:
        check_port(port.id)
    if len({port.id.lower() for port in new.ports}) != len(new.ports):
        raise InvalidRequest("a port is named twice")
    if new.user_data is not None and (length := len(new.user_data)) > LARGEST_USER_DATA:
        unit = "bytes" if isinstance(new.user_data, bytes) else "characters"
        raise InvalidRequest(f"the user data has {length} {unit}, more than {LARGEST_USER_DATA}")
