# SPDX-License-Identifier: Apache-2.0

"""Where an instance's console is: asking the service that has the instance, and answering.

Only that service's driver knows, and it has to switch the console on first.  A request
waits in the records for as long as somebody waits for it.  One that was not answered when
the service died is answered by its next process.

:meth:`Answers.look` is for one thread at a time; answers are found in others.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
import uuid
from collections.abc import Callable

from oslo_context import context as oslo_context
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.compute import faults
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import ConsoleRequest
from ironic_virt.compute.errors import ConflictingRequest, NoConsole, NoSuchInstance, RecordsError

LOG = logging.getLogger(__name__)

THREADS = 4
"""How many consoles a service switches on at a time."""

_LOOK_SECONDS = 0.2
# What clocks of two hosts may differ by, and then some.
_GRACE_SECONDS = 60.0


def ask(
    database: Database,
    instance: str,
    kind: str,
    *,
    timeout: float,
    wake: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> virt.ConsoleAddress:
    """Where an instance's console is, switched on; nothing of it is kept.

    :param instance: its uuid, or its name if no other has that.
    :param kind: ``serial`` or ``vnc``.
    :param timeout: seconds to wait for an answer.
    :param wake: told that something was asked for; for a service in this process.
    :raises NoSuchInstance: there is none.
    :raises AmbiguousName: several have this name.
    :raises ConflictingRequest: it is on no node.
    :raises NoConsole: why there is none, or no answer.
    """
    found = database.instances.get(instance)
    if found.host is None:
        raise ConflictingRequest(found.uuid, "it is on no node")
    if found.host not in database.services.up():
        raise NoConsole(
            found.uuid,
            f"compute service {found.host}, which has it, is down; nobody else knows its console",
        )
    request = str(uuid.uuid4())
    deadline = clock() + timeout
    database.consoles.ask(request, found.uuid, kind, timeout + _GRACE_SECONDS)
    wake()
    try:
        while True:
            answer = database.consoles.get(request)
            if answer is None or (clock() >= deadline and not answer.answered):
                raise NoConsole(
                    found.uuid,
                    f"compute service {found.host} has not said within {timeout:g} s where its "
                    "console is",
                )
            if answer.error is not None:
                raise NoConsole(found.uuid, answer.error)
            if answer.address is not None:
                return answer.address
            sleep(_LOOK_SECONDS)
    finally:
        with contextlib.suppress(RecordsError):
            database.consoles.forget(request)


class Answers:
    """Answers the requests for consoles of this host's instances.

    :param host: this service's host name.
    :param executor: has threads for the driver's part.
    """

    def __init__(
        self,
        host: str,
        driver: virt.ComputeDriver,
        database: Database,
        executor: concurrent.futures.Executor,
    ) -> None:
        self._host = host
        self._consoles = {"serial": driver.get_serial_console, "vnc": driver.get_vnc_console}
        self._db = database
        self._executor = executor
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._ended: set[str] = set()

    def look(self) -> None:
        """Begin with what has been asked since.

        :raises DatabaseUnreachable: the records can't be read.
        """
        with self._lock:
            # What is answered after this may be read as it was before.
            self._ended.clear()
        for request in self._db.consoles.wanted(self._host):
            with self._lock:
                if request.uuid in self._running | self._ended:
                    continue
                self._running.add(request.uuid)
            self._executor.submit(self._answer, request)

    # -- in the executor's threads --------------------------------------------

    def _answer(self, request: ConsoleRequest) -> None:
        try:
            self._find(request)
        except exceptions.WaitCancelled:
            LOG.debug("The console of instance %s: later", request.instance_uuid)
        except RecordsError as error:
            LOG.warning(
                "Nobody can be told of the console of instance %s now: %s",
                *(request.instance_uuid, error),
            )
        finally:
            with self._lock:
                self._running.discard(request.uuid)
                self._ended.add(request.uuid)

    def _find(self, request: ConsoleRequest) -> None:
        context = oslo_context.RequestContext(resource_uuid=request.instance_uuid, overwrite=True)
        try:
            instance = self._db.instances.get(request.instance_uuid)
        except NoSuchInstance as error:
            self._db.consoles.refuse(request.uuid, faults.one_line(error))
            return
        try:
            address = self._consoles[request.kind](context, instance)
        except exceptions.WaitCancelled:
            raise
        except Exception as error:
            if not isinstance(error, exceptions.IronicVirtError):
                LOG.exception("Instance %s: the driver broke off", instance.uuid)
            LOG.warning(
                "Instance %s has no %s console: %s",
                *(instance.uuid, request.kind, faults.one_line(error)),
            )
            self._db.consoles.refuse(request.uuid, faults.one_line(error))
        else:
            self._db.consoles.answer(request.uuid, address)
