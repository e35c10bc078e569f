# SPDX-License-Identifier: Apache-2.0

"""Carries out what is wanted of this host's instances, as often as it takes.

Level-triggered: each look reads from the records what is wanted and not yet so, and begins it,
one task an instance at a time.  A task reads its instance's record when it has a place, so what a
look has read may be old.  Nothing is kept here that a restart would miss.

Each task has a separate thread.  Only a limited number of tasks work at once: a task that waits
for Ironic gives its place up until it continues.

This is the one place where errors of actions are caught.  An outcome is written only while the
task is still wanted and the instance is still this process's.

:meth:`Tasks.look` is for one thread at a time; the rest is for any.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.compute.actions import Task, TryLater
from ironic_virt.compute.build import Build
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Fault, Instance
from ironic_virt.compute.errors import DatabaseError, NoSuchInstance, RecordsError, one_line
from ironic_virt.compute.states import TaskState, VmState
from ironic_virt.compute.verbs import BY_TASK, Verb

if TYPE_CHECKING:
    from ironic_virt.driver import IronicDriver

LOG = logging.getLogger(__name__)

MOST_WAITING = 1000
"""The limit of tasks that have begun and not ended; each has a thread."""

FIRST_SECONDS, LONGEST_SECONDS = 5.0, 60.0
"""How long something is put off that could not be done; the time doubles at each try."""


class Tasks:
    """What this process is carrying out, and what comes after it.

    :param incarnation: of this process, which must still be the service's to write an outcome.
    :param executor: the tasks' threads.
    :param may_act: says whether this process may still act for the host.
    :param on_end: called in a task's thread when it has ended.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        driver: IronicDriver,
        database: Database,
        incarnation: str,
        executor: concurrent.futures.Executor,
        *,
        may_act: Callable[[], bool] = lambda: True,
        on_end: Callable[[Instance], None] = lambda _instance: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._conf = conf
        self._driver = driver
        self._instances = database.instances
        self._incarnation = incarnation
        self._executor = executor
        self._may_act = may_act
        self._on_end = on_end
        self._clock = clock
        self._build = Build(conf, driver, database, incarnation)
        self._changed = threading.Condition()
        # Task states by instance: what is begun, and what was wanted at the last look.
        self._running: dict[str, str] = {}
        self._working = self._resuming = 0
        self._stopping = False
        self._requested: Mapping[str, str] = {}
        # By instance and task state: the last delay, and when it ends.
        self._delays: dict[tuple[str, str], tuple[float, float]] = {}

    # -- for the service's loops ----------------------------------------------

    def look(self) -> None:
        """Read what is pending, and begin it.

        :raises DatabaseError: the records can't be read.
        """
        self._requested = self._instances.pending_tasks(self._conf.host)
        for uuid, task_state in list(self._delays):
            if self._requested.get(uuid) != task_state:
                self._delays.pop((uuid, task_state), None)
        for uuid, task in self._requested.items():
            # A newer version may know other tasks.
            if task in BY_TASK and self.is_due(uuid, task) and self._begin(uuid, task):
                self._executor.submit(self._run, uuid, BY_TASK[TaskState(task)])

    def stop(self) -> None:
        """Begin nothing any more; what waits for its turn goes on at once, so that it ends."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def wait(self, timeout: float) -> list[str]:
        """Wait until nothing is being carried out any more.

        :returns: the instances that still have a task after ``timeout`` seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout)
            return sorted(self._running)

    def is_due(self, uuid: str, task: str) -> bool:
        """Whether a task's turn has come; after a restart everything is tried at once."""
        return self._delays.get((uuid, task), (0, 0))[1] <= self._clock()

    def _begins(self) -> bool:
        return self._may_act() and not self._stopping

    def _begin(self, uuid: str, task: str) -> bool:
        with self._changed:
            is_full = len(self._running) >= MOST_WAITING
            if uuid in self._running or is_full or not self._begins():
                return False
            self._running[uuid] = task
            return True

    # -- for the driver, in the tasks' threads --------------------------------

    @contextlib.contextmanager
    def waiting(self, instance: str | None) -> Iterator[None]:
        """Release the place of an instance's task while the block runs."""
        if instance not in self._running:
            yield
            return
        self._release_place()
        try:
            yield
        finally:
            self._take_place(resumes=True)

    def abort_reason(self, instance: str) -> str | None:
        """Why the instance's task is not wanted any more; ``None`` while it is.

        :raises WaitCancelled: it must be left as it is, because it is not this
            process's affair any more.
        """
        running, requested = self._running.get(instance), self._requested.get(instance)
        if running is None:
            return None
        if requested is not None and self._may_act():
            return None if requested == running else f"the server is {requested}"
        reason = (
            "the records no longer ask this service for the task; it was left as it is"
            if requested is None
            else "this service could not report for so long that it counts as down; the task was "
            "left as it is"
        )
        raise exceptions.WaitCancelled(None, instance, reason)

    def _take_place(self, *, resumes: bool = False) -> None:
        with self._changed:
            self._resuming += resumes
            # Those that have waited go on before others begin.
            self._changed.wait_for(
                lambda: (
                    self._stopping
                    or (
                        self._working < self._conf.compute.max_concurrent_tasks
                        and (resumes or not self._resuming)
                    )
                )
            )
            self._resuming -= resumes
            self._working += 1
            self._changed.notify_all()

    def _release_place(self) -> None:
        with self._changed:
            self._working -= 1
            self._changed.notify_all()

    # -- a task ---------------------------------------------------------------

    def _run(self, uuid: str, verb: Verb) -> None:
        instance = None
        self._take_place()
        try:
            instance = self._read(uuid, verb.task)
            if instance is not None:
                _log_context(instance)
                self.carry_out(verb, instance)
                self._delays.pop((uuid, verb.task), None)
        except exceptions.WaitCancelled as error:
            LOG.info("%s. %s goes on later", error, verb.task)
        except TryLater as later:
            self.put_off(uuid, verb.task, str(later))
        except DatabaseError as error:
            # The loops say so aloud.
            self.put_off(uuid, verb.task, f"the database can't be used: {error.reason}")
        except Exception:
            LOG.exception("[unexpected-error] Instance %s: %s failed", uuid, verb.task)
            self.put_off(uuid, verb.task, "of an unexpected error")
        finally:
            self._release_place()
            with self._changed:
                del self._running[uuid]
                self._changed.notify_all()
            if instance is not None:
                self._on_end(instance)

    def _read(self, uuid: str, task: TaskState) -> Instance | None:
        """The instance, if that is still wanted of it, and this process may act."""
        try:
            instance = self._instances.get(uuid)
        except NoSuchInstance:
            return None
        is_wanted = (instance.host, instance.task_state) == (self._conf.host, task)
        return instance if is_wanted and self._begins() else None

    def put_off(self, uuid: str, task: str, reason: str) -> None:
        """Have a task's turn come again in some seconds."""
        previous, _ = self._delays.get((uuid, task), (0.0, 0.0))
        seconds = min(2 * previous, LONGEST_SECONDS) or FIRST_SECONDS
        self._delays[uuid, task] = seconds, self._clock() + seconds
        say = LOG.debug if previous else LOG.warning
        say("Instance %s: %s is tried again in %.0f s: %s", uuid, task, seconds, reason)

    def carry_out(self, verb: Verb, instance: Instance) -> None:
        """Go on with a task wherever it stands.

        :param instance: its record, read just now.
        :raises TryLater: nothing was decided.
        :raises WaitCancelled: the service stops, or the instance isn't its any more.
        :raises RecordsError: the outcome could not be written.
        """
        task = Task(self._driver, instance, self._conf.compute.shutdown_timeout, self._build)
        try:
            settled = verb.carry_out(task)
        except (exceptions.WaitCancelled, RecordsError, TryLater):
            raise
        except exceptions.BuildAborted as error:
            LOG.info("%s", error)
            return
        except verb.later as error:
            raise TryLater(one_line(error)) from error
        except Exception as error:
            if not isinstance(error, exceptions.IronicVirtError):
                LOG.exception(
                    "[unexpected-error] Instance %s: the driver broke off", instance.uuid
                )
            settled = verb.failed(task, error)
            if settled is not None and settled.fault is None:
                LOG.error(
                    "[task-failed] Instance %s, %s: %s", instance.uuid, verb.task, one_line(error)
                )
                settled = dataclasses.replace(settled, fault=Fault.of(error))
        if settled is None:
            return
        is_written = self._instances.settle(instance, settled, self._incarnation)
        if is_written and settled.vm_state is VmState.DELETED:
            LOG.info("Instance %s is deleted", instance.uuid)


def _log_context(instance: Instance) -> None:
    """Have this thread's log lines name the instance and the request, until the next one."""
    oslo_context.RequestContext(
        request_id=instance.request_id,
        user_id=instance.user_id,
        project_id=instance.project_id,
        resource_uuid=instance.uuid,
        overwrite=True,
    )
