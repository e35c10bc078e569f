# SPDX-License-Identifier: Apache-2.0

"""Begins what is wanted of this host's instances, as often as it takes.

Level-triggered: each look reads from the records what is wanted and not yet so, and begins it.
A task reads its instance's record when it has a place, so what a look has read may be
old.  Nothing is kept here that a restart would miss.

:meth:`Tasks.look` is for one thread at a time; the tasks run in others.
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable, Collection

from oslo_context import context as oslo_context
from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.compute.actions import Result, TryLater
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Instance, PendingTask
from ironic_virt.compute.engine.in_flight import InFlight
from ironic_virt.compute.errors import DatabaseError, NoSuchInstance
from ironic_virt.compute.states import TaskState
from ironic_virt.compute.verbs import BY_TASK, Verb

LOG = logging.getLogger(__name__)

FIRST_SECONDS = 5.0
LONGEST_SECONDS = 60.0

Key = tuple[str, str]
"""An instance's uuid, and the task."""


class Retries:
    """When the turn of what could not be done comes again: in seconds that double.

    It is kept in memory: after a restart everything is tried at once.

    :param clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # The last delay, and when it ends.
        self._turns: dict[Key, tuple[float, float]] = {}

    def put_off(self, key: Key) -> tuple[float, bool]:
        """Put something off.

        :returns: for how many seconds, and whether for the first time.
        """
        previous = self._turns.get(key)
        delay = min(2 * previous[0], LONGEST_SECONDS) if previous else FIRST_SECONDS
        self._turns[key] = delay, self._clock() + delay
        return delay, previous is None

    def is_due(self, key: Key) -> bool:
        """Whether its turn has come."""
        return self._turns.get(key, (0.0, 0.0))[1] <= self._clock()

    def forget(self, key: Key) -> None:
        """Start from the beginning with it."""
        self._turns.pop(key, None)

    def keep_only(self, keys: Collection[Key]) -> None:
        """Forget all others."""
        for key in list(self._turns):
            if key not in keys:
                self.forget(key)


class Tasks:
    """Looks what is pending, and has it carried out.

    :param host: this service's host name.
    :param carry_out: a :class:`~ironic_virt.compute.engine.task_runner.TaskRunner`.
    :param executor: the tasks' threads.
    :param may_act: says whether this process may still act for the host.
    :param on_end: called in a task's thread when it has ended.
    :param wake: has :meth:`look` called soon.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        host: str,
        database: Database,
        carry_out: Callable[[Verb, Instance], Result],
        executor: concurrent.futures.Executor,
        in_flight: InFlight,
        *,
        may_act: Callable[[], bool] = lambda: True,
        on_end: Callable[[Instance], None] = lambda _instance: None,
        wake: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._db = database
        self._carry_out = carry_out
        self._executor = executor
        self._in_flight = in_flight
        self._may_act = may_act
        self._on_end = on_end
        self._wake = wake
        self._retries = Retries(clock)
        self._draining = False
        self._unknown = logs.LogOnce()

    def drain(self) -> None:
        """Begin nothing any more."""
        self._draining = True

    def look(self) -> None:
        """Read what is pending, and begin it.

        :raises DatabaseUnreachable: the records can't be read.
        """
        pending = self._db.instances.pending_tasks(self._host)
        self._in_flight.compare({task.uuid: task.task_state for task in pending})
        self._retries.keep_only({(task.uuid, task.task_state) for task in pending})
        for task in pending:
            is_due = self._is_known(task) and self._retries.is_due((task.uuid, task.task_state))
            if is_due and self._begins() and self._in_flight.begin(task):
                self._executor.submit(self._run, task, BY_TASK[TaskState(task.task_state)])

    def _begins(self) -> bool:
        return self._may_act() and not self._draining

    def _is_known(self, pending: PendingTask) -> bool:
        """Whether this version can do it."""
        if pending.task_state in BY_TASK:
            return True
        if self._unknown.is_news(pending):
            LOG.error(
                "[task-unknown] Instance %s: this version does not know its task %r; the instance "
                "is left alone",
                *(pending.uuid, pending.task_state),
            )
        return False

    # -- in the tasks' threads ------------------------------------------------

    def _run(self, pending: PendingTask, verb: Verb) -> None:
        result, instance = Result.ABORTED, None
        try:
            with self._in_flight.place():
                instance = self._read(pending)
                if instance is not None:
                    _log_context(instance)
                    result = self._carry_out(verb, instance)
                    self._retries.forget((pending.uuid, pending.task_state))
        except exceptions.WaitCancelled as error:
            result = Result.LEFT
            LOG.info("%s. %s goes on later", error, verb.task)
        except TryLater as later:
            result = self._put_off(pending, later.reason)
        except DatabaseError as error:
            # The loops say so aloud.
            result = self._put_off(pending, f"the database can't be used: {error.reason}")
        except Exception:
            LOG.exception("[unexpected-error] Instance %s: %s failed", pending.uuid, verb.task)
            result = self._put_off(pending, "of an unexpected error")
        finally:
            self._in_flight.end(pending.uuid)
            if instance is not None:
                self._on_end(instance)
            if result in (Result.ABORTED, Result.RESCHEDULED):
                # Something else may be wanted of it by now.
                self._wake()

    def _read(self, pending: PendingTask) -> Instance | None:
        """The instance, if that is still wanted of it, and this process may act."""
        try:
            instance = self._db.instances.get(pending.uuid)
        except NoSuchInstance:
            return None
        is_wanted = (instance.host, instance.task_state) == (self._host, pending.task_state)
        return instance if is_wanted and self._begins() else None

    def _put_off(self, pending: PendingTask, reason: str) -> Result:
        seconds, first = self._retries.put_off((pending.uuid, pending.task_state))
        say = LOG.warning if first else LOG.debug
        say(
            "Instance %s, node %s: %s is tried again in %.0f s: %s",
            *(pending.uuid, pending.node, pending.task_state, seconds, reason),
        )
        return Result.PUT_OFF


def _log_context(instance: Instance) -> None:
    """Have this thread's log lines name the instance and the request, until the next one."""
    oslo_context.RequestContext(
        request_id=instance.request_id,
        user_id=instance.user_id,
        project_id=instance.project_id,
        resource_uuid=instance.uuid,
        overwrite=True,
    )
