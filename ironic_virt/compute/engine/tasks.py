# SPDX-License-Identifier: Apache-2.0

"""Carries out what is wanted of this host's instances, as often as it takes.

Level-triggered: each look reads from the records what is wanted and not yet so,
and begins as much of it as there are free threads.  What a look doesn't begin
comes with a later one.  Nothing is kept here that a restart would miss.

:meth:`Tasks.look` is for one thread at a time; the tasks run in others.
"""

from __future__ import annotations

import concurrent.futures
import enum
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from oslo_context import context as oslo_context
from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.compute.db.records import Action as Asked
from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.engine.in_flight import InFlight
from ironic_virt.compute.engine.metrics import Metrics
from ironic_virt.compute.engine.outage import Outage
from ironic_virt.compute.engine.retries import Retries
from ironic_virt.compute.errors import DatabaseFailed, DatabaseUnreachable
from ironic_virt.compute.states import TaskState

LOG = logging.getLogger(__name__)


class Result(enum.StrEnum):
    """How a task ended."""

    DONE = "done"
    FAILED = "failed"
    RESCHEDULED = "rescheduled"
    ABORTED = "aborted"
    PUT_OFF = "put off"
    LEFT = "left"


class TryLater(Exception):
    """It can't be done now, and nothing was decided.

    :param reason: why, a sentence without its full stop.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Action(Protocol):
    """Carries one kind of task out, from whatever state it finds.

    :raises TryLater: it has to be done again, a little later.
    :raises WaitCancelled: the service stops, or the instance isn't its any more.
    """

    def __call__(self, context: oslo_context.RequestContext, instance: Instance) -> Result: ...


class Pool:
    """Threads for some tasks.

    :param tasks: which ones.
    :param size: how many at a time.
    """

    def __init__(
        self, tasks: Iterable[TaskState], size: int, executor: concurrent.futures.Executor
    ) -> None:
        self.tasks = tuple(tasks)
        self.size = size
        self.executor = executor


class Tasks:
    """Looks what is wanted, and has it carried out.

    :param wanted: reads from the records this host's instances of which something
        is wanted, those first that wait longest.
    :param asked: reads what was ever asked of an instance, the oldest first.
    :param actions: what to do for each task.
    :param pools: each task is in one of them.
    :param on_end: told, in its thread, that an instance's task has ended.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        wanted: Callable[[], Sequence[Instance]],
        asked: Callable[[str], Sequence[Asked]],
        actions: Mapping[TaskState, Action],
        pools: Iterable[Pool],
        in_flight: InFlight,
        metrics: Metrics,
        database: Outage,
        *,
        on_end: Callable[[Instance], None] = lambda _instance: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted = wanted
        self._asked = asked
        self._actions = actions
        self._pools = tuple(pools)
        self._pool_of = {task: pool for pool in self._pools for task in pool.tasks}
        self._in_flight = in_flight
        self._metrics = metrics
        self._database = database
        self._on_end = on_end
        self._clock = clock
        self._retries = Retries(clock)
        self._draining = False
        self._strange = logs.Told()

    def drain(self) -> None:
        """Begin nothing any more."""
        self._draining = True

    def look(self) -> None:
        """Begin what is wanted, as far as there are threads for it.

        :raises DatabaseUnreachable: the records can't be read.
        """
        self._in_flight.looking()
        wanted = {one.uuid: one for one in self._wanted()}
        tasks = {uuid: task for uuid, one in wanted.items() if (task := self._task_of(one))}
        self._retries.keep_only(list(tasks.items()))
        self._in_flight.compare(tasks)
        free = {pool: pool.size - self._in_flight.count(*pool.tasks) for pool in self._pools}
        for uuid, task in tasks.items():
            if self._draining:
                return
            pool = self._pool_of[task]
            if free[pool] <= 0 or not self._retries.is_due((uuid, task)):
                continue
            instance = wanted[uuid]
            if self._in_flight.begin(uuid, task, instance.node):
                free[pool] -= 1
                pool.executor.submit(self._carry_out, instance, task)

    def _task_of(self, instance: Instance) -> TaskState | None:
        """What is wanted, if this version can do it."""
        try:
            task = TaskState(instance.task_state or "")
        except ValueError:
            task = None
        if task in self._pool_of:
            return task
        asked = (instance.uuid, instance.task_state or "")
        if self._strange.is_news(asked):
            LOG.error(
                "Instance %s: %r is wanted of it, which this version can't do; it is left alone",
                *asked,
            )
        return None

    # -- in the pools' threads ------------------------------------------------

    def _carry_out(self, instance: Instance, task: TaskState) -> None:
        began = self._clock()
        self._metrics.task_began(task)
        result = Result.PUT_OFF
        try:
            result = self._result(instance, task)
        finally:
            self._metrics.task_ended(task, result, self._clock() - began)
            self._in_flight.end(instance.uuid)
            self._on_end(instance)

    def _result(self, instance: Instance, task: TaskState) -> Result:
        try:
            context = _log_context(instance, self._asked(instance.uuid))
            result = self._actions[task](context, instance)
            self._database.worked()
            self._retries.forget((instance.uuid, task))
            return result
        except exceptions.WaitCancelled as error:
            LOG.info("%s. %s goes on later", error, task)
            return Result.LEFT
        except TryLater as later:
            self._put_off(instance, task, later.reason)
        except (DatabaseUnreachable, DatabaseFailed) as error:
            self._database.failed(error)
            self._put_off(instance, task, "the database can't be used")
        except Exception:
            LOG.exception("Instance %s: %s broke off", instance.uuid, task)
            self._put_off(instance, task, "of an error that nobody expected")
        return Result.PUT_OFF

    def _put_off(self, instance: Instance, task: TaskState, reason: str) -> None:
        seconds, first = self._retries.put_off((instance.uuid, task))
        say = LOG.warning if first else LOG.debug
        say(
            "Instance %s, node %s: %s is tried again in %.0f s: %s",
            *(instance.uuid, instance.node, task, seconds, reason),
        )


def _log_context(instance: Instance, asked: Sequence[Asked]) -> oslo_context.RequestContext:
    """Have this thread's log lines name the instance and the request, until the next one."""
    request = next((one for one in reversed(asked) if one.finish_time is None), None)
    return oslo_context.RequestContext(
        request_id=request.request_id if request else None,
        user_id=request.user_id if request else instance.user_id,
        project_id=request.project_id if request else instance.project_id,
        resource_uuid=instance.uuid,
        overwrite=True,
    )
