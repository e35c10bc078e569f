# SPDX-License-Identifier: Apache-2.0

"""The reference compute service: what it consists of, and its life in one process.

It registers under its host name and reports that it is up; it keeps the records of
its nodes as Ironic has them, and those of its instances as the hardware is; and it
carries out the requests for its instances.  Each of these has a separate loop, so
that none waits for another.

The records are the truth.  After any end of this process, another process of the
same name can continue from them.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import conf as options
from ironic_virt import exceptions, logs
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.engine.loops import Loop
from ironic_virt.compute.engine.power_sync import PowerSync
from ironic_virt.compute.engine.tasks import MOST_WAITING, Tasks
from ironic_virt.compute.engine.virtapi import ServiceVirtAPI
from ironic_virt.compute.errors import DatabaseError, ServiceNotFound, ServiceSuperseded, one_line
from ironic_virt.compute.states import TaskState
from ironic_virt.compute.tracker import Tracker
from ironic_virt.driver.loading import load_compute_driver
from ironic_virt.metrics.prometheus import PrometheusMetrics

if TYPE_CHECKING:
    from ironic_virt.driver import IronicDriver
    from ironic_virt.virt import VirtAPI

LOG = logging.getLogger(__name__)

CANCEL_SECONDS = 5.0
"""How long the records may take to answer when the service stops, and then tasks to end."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
"""Seconds between the looks at nodes that instances have left, while Ironic cleans them."""


class Service:
    """One compute service.

    :meth:`prepare`, :meth:`start`, :meth:`stop`, in this order and once each, are for
    one thread; the rest is for any.

    :param conf: options, loaded and checked.
    :param database: the records; their schema has been checked.
    :param version: of the software, for the records.
    :param on_fatal: called from any thread with an error that ends the service.
    :param on_round: called after each look at what is wanted, as a sign of life.
    :param on_standby: called about once a second while another process of this name is active.
    :param load_driver: makes the driver.
    :param executor: what tasks run in, by default threads.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        database: Database,
        *,
        version: str,
        on_fatal: Callable[[Exception], None] = lambda _error: None,
        on_round: Callable[[], None] = lambda: None,
        on_standby: Callable[[], None] = lambda: None,
        load_driver: Callable[[cfg.ConfigOpts, VirtAPI], IronicDriver] = load_compute_driver,
        executor: concurrent.futures.Executor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._conf = conf
        self._db = database
        self._version = version
        self._clock = clock
        self.host: str = conf.host
        self.incarnation = str(uuid.uuid4())
        self.metrics = PrometheusMetrics(self.host, version, clock=clock)
        self._reported_at = clock()
        self._ironic_trouble = ""
        self._outage = logs.OutageTimer(clock=clock)
        self._is_database_away = False
        self._virtapi = ServiceVirtAPI(self.host, database, self.metrics, on_standby)
        self.driver = load_driver(conf, self._virtapi)
        self.metrics.counts = self.driver.node_counts
        self._tracker = Tracker(self.host, self.driver, database)
        self._power_sync = PowerSync(self.host, self.driver, database)
        self._executor = executor or concurrent.futures.ThreadPoolExecutor(
            MOST_WAITING, "ironic-virt-task"
        )
        self._tasks = self._virtapi.tasks = Tasks(
            *(conf, self.driver, database, self.incarnation, self._executor),
            may_act=self.may_act,
            on_end=self._task_ended,
            clock=clock,
        )
        self._wait_until = 0.0
        self._pause = _FIRST_PAUSE
        self._on_round = on_round
        self._loops = {
            name: Loop(name, action, interval, on_fatal)
            for name, action, interval in (
                ("report", self.report, lambda: conf.report_interval),
                ("tasks", self.look, lambda: conf.compute.task_interval),
                ("refresh", self.refresh, self._until_refresh),
                ("power-sync", self.sync_power, lambda: conf.compute.power_sync_interval),
            )
        }

    # -- its life -------------------------------------------------------------

    def prepare(self) -> None:
        """Have the driver ready, which may mean to be a standby until then, and register.

        :raises IronicVirtError: Ironic can't be reached, or the options can't be served.
        """
        self.driver.init_host(self.host)
        previous = self._registered()
        if previous is None:
            self._try_credentials()
        self._reported_at = self._clock()
        service = self._db.services.register(
            self.host,
            version=self._version,
            incarnation=self.incarnation,
            **self._target(),
        )
        if previous is not None and self._db.services.reports(previous):
            # It may still run and not know yet that it has to stop.
            self._wait_until = self._clock() + 2 * self._conf.compute.task_interval + 1
        LOG.info(
            "Compute service %s, version %s, incarnation %s, is up%s",
            *(self.host, self._version, self.incarnation),
            f"; it is disabled ({service.disabled_reason})" if service.disabled else "",
        )

    def _try_credentials(self) -> None:
        """List the nodes once before the first start, so that nobody reads that it is up."""
        try:
            self.driver.get_available_nodes(refresh=True)
        except exceptions.IronicUnauthorized as error:
            raise exceptions.InvalidConfiguration("[ironic]", one_line(error)) from error
        except exceptions.IronicError as error:
            # Whoever asks for the nodes says this aloud, and asks again.
            LOG.debug("The nodes were not listed: %s", error)

    def start(self) -> None:
        """Start all loops, each in a thread."""
        for loop in self._loops.values():
            loop.start()

    def reload(self) -> None:
        """Read the files again; mutable options hold from now on, or from the next refresh on."""
        try:
            changed = self._conf.mutate_config_files()
            for warning in options.check(self._conf):
                LOG.warning("[option-questionable] %s", warning)
        except (cfg.Error, ValueError, exceptions.InvalidConfiguration) as error:
            LOG.error("[option-refused] The changed options can't all be used: %s", error)
        else:
            names = sorted(f"[{group or 'DEFAULT'}] {name}" for group, name in changed)
            LOG.info("Reloaded the files; changed: %s", ", ".join(names) or "nothing")
        for loop in self._loops.values():
            loop.wake()

    def stop(self, timeout: float) -> list[str]:
        """End in order.

        The records say at once that the service is down, and nothing new begins.  Tasks that
        wait for Ironic end at once, since that goes on without them; tasks that are in the
        midst of requests have ``timeout`` seconds.  The next process of this name goes on
        with them.

        :returns: the instances whose tasks have not ended.
        """
        self._tasks.stop()
        for name in ("tasks", "report"):
            self._loops[name].stop(timeout=1.0)
        # The process ends without the answer of a database that hangs.
        leaving = threading.Thread(target=self._leave, daemon=True)
        leaving.start()
        leaving.join(CANCEL_SECONDS)
        begun = self._tasks.wait(0)
        self.driver.cleanup_host()
        unfinished = self._tasks.wait(max(CANCEL_SECONDS, timeout))
        if begun:
            LOG.warning(
                "[tasks-left] The tasks of %d instances go on when this service is started "
                "again: %s",
                *(len(begun), ", ".join(begun)),
            )
        for loop in self._loops.values():
            loop.stop()
        self._executor.shutdown(wait=not unfinished)
        for loop in self._loops.values():
            loop.stop(timeout=1.0)
        if not unfinished:
            self.driver.let_go()
        return unfinished

    def _leave(self) -> None:
        with self._watching_database():
            self._db.services.leave(self.host, self.incarnation)

    # -- the loops' rounds ----------------------------------------------------

    def report(self) -> None:
        """Report that the service is up.

        :raises ServiceSuperseded: another process has taken over its name.
        """
        began = self._clock()
        with self._watching_database():
            self._db.services.heartbeat(self.host, self.incarnation, **self._target())
            self._reported_at = began

    def may_act(self) -> bool:
        """Whether this service has reported within ``service_down_time``.

        One that has not counts as down: its nodes may be given to another one.
        """
        return self._clock() - self._reported_at <= float(self._conf.service_down_time)

    def look(self) -> None:
        """Begin what is wanted.

        :raises ServiceSuperseded: another process has taken over its name.
        """
        with self._watching_database():
            service = self._registered()
            if service is None or service.incarnation != self.incarnation:
                raise ServiceSuperseded(self.host)
            self._virtapi.write_progress()
            if self._clock() >= self._wait_until:
                self._tasks.look()
        self._on_round()

    def refresh(self) -> None:
        """Bring the nodes' records up to date."""
        with self._watching_database():
            try:
                self._tracker.refresh()
                self._ironic_trouble = self.driver.refresh_error() or ""
            except exceptions.IronicError as error:
                self._ironic_trouble = one_line(error)
                # Whoever asks for the nodes says this aloud, and once.
                LOG.debug("The nodes' records were not refreshed: %s", error)

    def _until_refresh(self) -> float:
        """Seconds to the next refresh: soon, and then later and later, if a node comes back."""
        usual = float(self._conf.compute.resource_refresh_interval)
        if not self._tracker.awaits_nodes:
            self._pause = _FIRST_PAUSE
            return usual
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        return min(pause, usual) if usual else pause

    def troubles(self) -> list[str]:
        """What keeps this service from its work, a sentence each; nothing is asked for that."""
        troubles = []
        if self._is_database_away:
            troubles.append("The records are out of reach")
        elif not self.may_act():
            troubles.append("The service has not reported for too long and counts as down")
        if error := self._ironic_trouble:
            troubles.append(f"Ironic could not be asked at the last refresh: {error}")
        return troubles

    def sync_power(self) -> None:
        """Compare the instances' records with the hardware."""
        with self._watching_database():
            self._power_sync.sync()

    # -- what they share ------------------------------------------------------

    @contextlib.contextmanager
    def _watching_database(self) -> Iterator[None]:
        """Take note of whether the database answers; what needs it comes again anyway."""
        failure = None
        try:
            yield
        except DatabaseError as error:
            failure = error
        # Out of the block, where oslo.log would say it twice.
        self._is_database_away = failure is not None
        if failure is None:
            if (seconds := self._outage.worked()) is not None:
                LOG.info("The records are out of reach: that is over after %.0f s", seconds)
        elif (seconds := self._outage.failed()) is not None:
            LOG.error(
                "[database-unreachable] The records are out of reach%s: %s. What is being "
                "deployed goes on; nothing new begins until it is back",
                *(f" for {seconds:.0f} s" if seconds else "", failure),
            )

    def _target(self) -> dict[str, str | None]:
        ironic = self._conf.ironic
        return {"conductor_group": ironic.conductor_group, "shard_key": ironic.shard_key}

    def _registered(self) -> records.ComputeService | None:
        with contextlib.suppress(ServiceNotFound):
            return self._db.services.get(self.host)
        return None

    def _task_ended(self, instance: records.Instance) -> None:
        if instance.node is not None and instance.task_state == TaskState.DELETING:
            self._tracker.give_back(instance.node)
            self._loops["refresh"].wake()
