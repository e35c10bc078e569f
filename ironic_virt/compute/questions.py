# SPDX-License-Identifier: Apache-2.0

"""What only the service that has an instance or a node can say of it: asking it, and answering.

Its driver knows where the instance's console is, which has to be switched on first, and what
Ironic has to say of the instance's health.
A question waits in the records for as long as somebody waits for the answer.
One that was not answered when the service died is answered by its next process.

:meth:`Answers.look` is for one thread at a time; answers are found in others.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.compute import faults
from ironic_virt.compute.db import Database, records
from ironic_virt.compute.errors import (
    ConflictingRequest,
    NoAnswer,
    NoConsole,
    NoDiagnostics,
    NoSuchInstance,
    RecordsError,
)

LOG = logging.getLogger(__name__)

T = TypeVar("T")
_Answer = records.Plain | Mapping[str, Any]

THREADS = 4
"""How many questions a service answers at a time."""

_LOOK_SECONDS = 0.2
# What clocks of two hosts may differ by, and then some.
_GRACE_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What can be asked.

    :param name: in the records.
    :param words: what it is about, for people.
    :param decode: makes the answer from its JSON form.
    :param error: raised when there is no answer.
    """

    name: str
    words: str
    decode: Callable[[Mapping[str, Any]], T]
    error: type[NoAnswer]


SERIAL_CONSOLE = Kind("serial", "serial console", records.console_from, NoConsole)
VNC_CONSOLE = Kind("vnc", "VNC console", records.console_from, NoConsole)
DIAGNOSTICS = Kind("diagnostics", "diagnostics", records.diagnostics_from, NoDiagnostics)
_WORDS = {kind.name: kind.words for kind in (SERIAL_CONSOLE, VNC_CONSOLE, DIAGNOSTICS)}


def ask(
    database: Database,
    instance: str,
    kind: Kind[T],
    *,
    timeout: float,
    wake: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Ask about an instance, and wait for the answer; nothing of it is kept.

    :param instance: its uuid, or its name if no other has that.
    :param timeout: seconds to wait for an answer.
    :param wake: told that something was asked for; for a service in this process.
    :raises NoSuchInstance: there is none.
    :raises AmbiguousName: several have this name.
    :raises ConflictingRequest: it is on no node.
    :raises NoAnswer: of the kind that goes with the question: why there is none.
    """
    found = database.instances.get(instance)
    if found.host is None:
        raise ConflictingRequest(found.uuid, "it is on no node")

    def none(reason: str) -> NoAnswer:
        return kind.error(found.uuid, reason, node=found.node)

    return _ask(database, found.uuid, found.host, kind, none, timeout, wake, clock, sleep)


def _ask(
    database: Database,
    about: str,
    host: str,
    kind: Kind[T],
    none: Callable[[str], NoAnswer],
    timeout: float,
    wake: Callable[[], None],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> T:
    if host not in database.services.up():
        raise none(
            f"compute service {host}, which has it, is down; nobody else knows its {kind.words}"
        )
    question = str(uuid.uuid4())
    deadline = clock() + timeout
    database.questions.ask(question, about, kind.name, timeout + _GRACE_SECONDS)
    wake()
    try:
        while True:
            answer = database.questions.get(question)
            if answer is None or (clock() >= deadline and not answer.answered):
                raise none(
                    f"compute service {host} has said nothing of its {kind.words} within "
                    f"{timeout:g} s"
                )
            if answer.error is not None:
                raise none(answer.error)
            if answer.answer is not None:
                return kind.decode(answer.answer)
            sleep(_LOOK_SECONDS)
    finally:
        with contextlib.suppress(RecordsError):
            database.questions.forget(question)


class Answers:
    """Answers the questions about this host's instances and nodes.

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
        self._answers: dict[str, Callable[[records.Instance], _Answer]] = {
            SERIAL_CONSOLE.name: driver.get_serial_console,
            VNC_CONSOLE.name: driver.get_vnc_console,
            DIAGNOSTICS.name: driver.get_instance_diagnostics,
        }
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
        for question in self._db.questions.wanted(self._host):
            with self._lock:
                if question.uuid in self._running | self._ended:
                    continue
                self._running.add(question.uuid)
            self._executor.submit(self._answer, question)

    # -- in the executor's threads --------------------------------------------

    def _answer(self, question: records.Question) -> None:
        words = _WORDS[question.kind]
        try:
            self._find(question, words)
        except exceptions.WaitCancelled:
            LOG.debug("The %s of %s: later", words, self._subject(question))
        except RecordsError as error:
            LOG.warning(
                "Nobody can be told of the %s of %s now: %s",
                *(words, self._subject(question), error),
            )
        finally:
            with self._lock:
                self._running.discard(question.uuid)
                self._ended.add(question.uuid)

    def _find(self, question: records.Question, words: str) -> None:
        try:
            find = self._finder(question)
        except NoSuchInstance as error:
            self._db.questions.refuse(question.uuid, faults.one_line(error))
            return
        try:
            answer = find()
        except exceptions.WaitCancelled:
            raise
        except Exception as error:
            subject = self._subject(question)
            if not isinstance(error, exceptions.IronicVirtError):
                LOG.exception("%s: the driver broke off", subject.capitalize())
            LOG.warning("%s has no %s: %s", *(subject.capitalize(), words, faults.one_line(error)))
            self._db.questions.refuse(question.uuid, faults.one_line(error))
        else:
            self._db.questions.answer(question.uuid, records.plain(answer))

    def _finder(self, question: records.Question) -> Callable[[], _Answer]:
        instance = self._db.instances.get(question.about)
        return lambda: self._answers[question.kind](instance)

    def _subject(self, question: records.Question) -> str:
        return f"instance {question.about}"
