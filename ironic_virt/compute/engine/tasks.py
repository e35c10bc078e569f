# SPDX-License-Identifier: Apache-2.0

"""Begins what is wanted of this host's instances, as often as it takes.

Level-triggered: each look reads from the records what is wanted and not yet so.  As much of it
is begun as there is room for; the rest is begun when a task ends or waits, without another
look.  A task reads its instance's record when its turn comes, so what a look has read may be
old.  Nothing is kept here that a restart would miss.

:meth:`Tasks.look` is for one thread at a time; the tasks run in others.
"""

from __future__ import annotations

import concurrent.futures
import threading
import time
from collections.abc import Callable
from typing import Protocol

from oslo_context import context as oslo_context
from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.compute.actions import Result, TryLater
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Instance, Wanted
from ironic_virt.compute.engine.in_flight import InFlight
from ironic_virt.compute.engine.metrics import Metrics
from ironic_virt.compute.engine.outage import Outage
from ironic_virt.compute.engine.retries import Retries
from ironic_virt.compute.errors import DatabaseFailed, DatabaseUnreachable, NoSuchInstance
from ironic_virt.compute.states import TaskState
from ironic_virt.compute.verbs import BY_TASK, Verb

LOG = logging.getLogger(__name__)


class CarryOut(Protocol):
    """See :class:`~ironic_virt.compute.engine.carrying_out.CarryingOut`."""

    def __call__(self, verb: Verb, instance: Instance) -> Result: ...


class Tasks:
    """Looks what is wanted, and has it carried out.

    :param host: this service's host name.
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
        carry_out: CarryOut,
        executor: concurrent.futures.Executor,
        in_flight: InFlight,
        metrics: Metrics,
        outage: Outage,
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
        self._metrics = metrics
        self._outage = outage
        self._may_act = may_act
        self._on_end = on_end
        self._wake = wake
        self._clock = clock
        self._retries = Retries(clock)
        self._lock = threading.Lock()
        self._backlog: dict[str, Wanted] = {}
        self._draining = False
        self._strange = logs.Told()
        in_flight.on_room = self._fill

    def drain(self) -> None:
        """Begin nothing any more."""
        self._draining = True

    def look(self) -> None:
        """Read what is wanted, and begin as much of it as there is room for.

        :raises DatabaseUnreachable: the records can't be read.
        """
        wanted = {one.uuid: one for one in self._db.instances.wanted(self._host)}
        known = {uuid: one for uuid, one in wanted.items() if self._is_known(one)}
        self._retries.keep_only([(uuid, one.task_state) for uuid, one in known.items()])
        self._in_flight.compare({uuid: one.task_state for uuid, one in wanted.items()})
        with self._lock:
            self._backlog = known
        self._fill()

    def _is_known(self, wanted: Wanted) -> bool:
        """Whether this version can do it."""
        if wanted.task_state in BY_TASK:
            return True
        if self._strange.is_news(wanted):
            LOG.error(
                "[task-unknown] Instance %s: %r is wanted of it, which this version can't do; it "
                "is left alone",
                *(wanted.uuid, wanted.task_state),
            )
        return False

    def _fill(self) -> None:
        """Begin what is known to be wanted, as far as there is room."""
        while (wanted := self._next()) is not None:
            verb = BY_TASK[TaskState(wanted.task_state)]
            self._executor.submit(self._run, wanted, verb)

    def _next(self) -> Wanted | None:
        """Take what is begun next; ``None``: nothing, or there is no room."""
        with self._lock:
            if self._draining or not self._may_act() or not self._in_flight.has_room():
                return None
            for uuid, wanted in self._backlog.items():
                task = TaskState(wanted.task_state)
                if not self._retries.is_due((uuid, task)):
                    continue
                if self._in_flight.begin(uuid, task, wanted.node):
                    del self._backlog[uuid]
                    return wanted
        return None

    # -- in the tasks' threads ------------------------------------------------

    def _run(self, wanted: Wanted, verb: Verb) -> None:
        began = self._clock()
        self._metrics.task_began(verb.task)
        result, instance = Result.PUT_OFF, None
        try:
            instance = self._read(wanted)
            if instance is None:
                result = Result.ABORTED
            else:
                _log_context(instance)
                result = self._result(instance, verb)
        except (DatabaseUnreachable, DatabaseFailed) as error:
            self._outage.failed(error)
            self._put_off(wanted, "the database can't be used")
        finally:
            self._metrics.task_ended(verb.task, result, self._clock() - began)
            self._end(wanted)
            if instance is not None:
                self._on_end(instance)
            if result in (Result.ABORTED, Result.RESCHEDULED):
                # Something else may be wanted of it by now.
                self._wake()
            self._fill()

    def _end(self, wanted: Wanted) -> None:
        with self._lock:
            again = self._backlog.get(wanted.uuid)
            if again is not None and again.task_state == wanted.task_state:
                # From a look meanwhile; the next one shows whether it is still wanted.
                del self._backlog[wanted.uuid]
            self._in_flight.end(wanted.uuid)

    def _read(self, wanted: Wanted) -> Instance | None:
        """The instance, if that is still wanted of it."""
        try:
            instance = self._db.instances.get(wanted.uuid)
        except NoSuchInstance:
            return None
        same = (instance.host, instance.task_state) == (self._host, wanted.task_state)
        return instance if same else None

    def _result(self, instance: Instance, verb: Verb) -> Result:
        task = verb.task
        wanted = Wanted(instance.uuid, task, instance.node)
        try:
            result = self._carry_out(verb, instance)
            self._outage.worked()
            self._retries.forget((instance.uuid, task))
            return result
        except exceptions.WaitCancelled as error:
            LOG.info("%s. %s goes on later", error, task)
            return Result.LEFT
        except TryLater as later:
            self._put_off(wanted, later.reason)
        except (DatabaseUnreachable, DatabaseFailed) as error:
            self._outage.failed(error)
            self._put_off(wanted, "the database can't be used")
        except Exception:
            LOG.exception("[unexpected-error] Instance %s: %s broke off", instance.uuid, task)
            self._put_off(wanted, "of an unexpected error")
        return Result.PUT_OFF

    def _put_off(self, wanted: Wanted, reason: str) -> None:
        seconds, first = self._retries.put_off((wanted.uuid, wanted.task_state))
        say = LOG.warning if first else LOG.debug
        say(
            "Instance %s, node %s: %s is tried again in %.0f s: %s",
            *(wanted.uuid, wanted.node, wanted.task_state, seconds, reason),
        )


def _log_context(instance: Instance) -> None:
    """Have this thread's log lines name the instance and the request, until the next one."""
    oslo_context.RequestContext(
        request_id=instance.request_id,
        user_id=instance.user_id,
        project_id=instance.project_id,
        resource_uuid=instance.uuid,
        overwrite=True,
    )
