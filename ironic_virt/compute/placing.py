# SPDX-License-Identifier: Apache-2.0

"""Which node an instance gets: the scheduler chooses, and the records decide.

What is chosen may be gone a moment later, so a node is an instance's only when
the claim on it stands in the records; until then the next best is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oslo_config import cfg

from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import FaultReport, Fence, Instance
from ironic_virt.compute.errors import ClaimLost
from ironic_virt.compute.states import TaskState
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import CandidateSource, ComputeNodeLike, RecordList
from ironic_virt.scheduler.filter_scheduler import FilterScheduler

T = TypeVar("T")


def place(
    scheduler: FilterScheduler,
    source: CandidateSource,
    spec: RequestSpec,
    claim: Callable[[ComputeNodeLike], T],
) -> T:
    """Choose nodes until one can be claimed.

    :param claim: writes the claim on a node down, or raises that it is lost.
    :returns: what ``claim`` has returned.
    :raises NoValidHost: there is no such node, or each was taken meanwhile.
    """
    for host in scheduler.ranked(spec, source):
        assert host.record is not None, "the scheduler hands out what it has looked at"
        try:
            return claim(host.record)
        except ClaimLost:
            continue
    raise AssertionError("the scheduler says that there is none by an error")


def candidates(database: Database) -> CandidateSource:
    """The free nodes of the services that are up and enabled, as the records have them."""
    return database.candidates


def only(database: Database, node: str) -> CandidateSource:
    """A node that somebody has chosen, if it is free and its service is up and enabled.

    :raises ComputeNodeNotFound: there is no record of it.
    """
    usable = [one.host for one in database.services.list() if not one.disabled]
    hosts = set(usable).intersection(database.services.up())
    return RecordList([database.compute_nodes.get(node)], hosts)


class Placing:
    """Finds other nodes for builds that have failed.  Thread-safe."""

    def __init__(self, conf: cfg.ConfigOpts, database: Database) -> None:
        self._scheduler = FilterScheduler.from_conf(conf)
        self._db = database

    def move_build(
        self,
        instance: Instance,
        fault: FaultReport,
        given_up: str | None,
        *,
        refused: bool = False,
        fence: Fence | None = None,
    ) -> ComputeNodeLike | None:
        """Give a build another node, or a place in a pool, perhaps of another host.

        The former one is released.

        :param fault: why the build failed.
        :param given_up: what is not tried again for this instance: a node, or a pool
            that had none for it.
        :param refused: the guard has refused the node, and nothing was changed there.
        :param fence: what has to hold for the build to be moved.
        :returns: the node; ``None``: the build is not wanted any more.
        :raises NoValidHost: there is none left to try.
        """
        tried = {*instance.tried_nodes, *([given_up] if given_up else [])}
        spec = RequestSpec.from_flavor(
            instance.flavor,
            instance_uuid=instance.uuid,
            image=instance.image,
            exclude_nodes=tried,
            num_attempts=instance.attempts + 1,
        )

        def claim(node: ComputeNodeLike) -> ComputeNodeLike | None:
            moved = self._db.instances.reschedule(
                *(instance.uuid, TaskState.SPAWNING, node, fault),
                attempts=instance.attempts,
                tried=given_up,
                refused=refused,
                fence=fence,
            )
            return node if moved else None

        return place(self._scheduler, candidates(self._db), spec, claim)
