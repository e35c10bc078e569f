# SPDX-License-Identifier: Apache-2.0

"""Sends requests: negotiates versions, retries, and checks what happened to lost replies.

Below it is a channel that carries single requests, above it the client that
knows what they mean.  All retries are made here.  Each try has an API version that
Ironic speaks at that time.

Thread-safe.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.http.connection import Answer, Channel
from ironic_virt.baremetal.http.negotiation import Negotiation
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.baremetal.http.versions import ServerVersions, fitting

LOG = logging.getLogger(__name__)

T = TypeVar("T")

NOT_ACCEPTABLE = 406

Guard = Callable[[bool], contextlib.AbstractContextManager[object]]
"""Around each request; told whether it changes something, and raises if that may not be."""


class Fence(Protocol):
    """Keeps a process from changing anything whose place another one has taken."""

    def sending(self, change: bool) -> contextlib.AbstractContextManager[object]:
        """See :data:`Guard`."""

    def may_change(self) -> float:
        """See :func:`.transport.guarded`."""


class Sender:
    """Sends requests to one Ironic.

    :param channel: carries single requests.
    :param retry: when to send them again.
    :param guard: around each request.
    """

    def __init__(self, channel: Channel, retry: RetryPolicy, guard: Guard | None = None) -> None:
        self._channel = channel
        self._retry = retry
        self._guard: Guard = guard or (lambda _: contextlib.nullcontext())
        self._negotiation = Negotiation(retry.clock)
        self._timeout: float | None = None
        self._checks: tuple[Callable[[], object], ...] = ()

    def single_try(self) -> Sender:
        """The same without retries; both share what is known of the server's versions."""
        twin = copy.copy(self)
        twin._retry = dataclasses.replace(self._retry, max_retries=0)
        return twin

    def within(self, timeout: float) -> Sender:
        """The same with a shorter timeout for each answer, in seconds."""
        twin = copy.copy(self)
        twin._timeout = timeout
        return twin

    def rechecking(self, check: Callable[[], object]) -> Sender:
        """The same, but each change calls a check before each further try.

        :param check: raises if the change is no longer right, which ends the change with
            that error; called after the checks that this one already has.
        """
        twin = copy.copy(self)
        twin._checks = (*self._checks, check)
        return twin

    @property
    def versions(self) -> ServerVersions:
        """The API versions that Ironic speaks, as far as is known.

        :raises MicroversionNotSupported: Ironic is too old for the driver.
        """
        return self._retry.run(self._versions)

    def _versions(self) -> ServerVersions:
        if self._negotiation.known is not None:
            return self._negotiation.known
        answer = self._sent("GET", "", None)
        what = "an Ironic's, it names no API versions; is [ironic] endpoint_override right?"
        return self._negotiation.note(answers.content(answer, _versions_in, what, path=""))

    def read(
        self,
        path: str,
        *,
        fields: Sequence[str] = (),
        newer: Sequence[str] = (),
        params: Mapping[str, str] | None = None,
        node: str | None = None,
        is_costly: bool = False,
    ) -> Answer:
        """Send a GET and retry it after errors that may pass; see :meth:`once`.

        :param is_costly: a conductor works it out, perhaps by asking the hardware.  What
            fails there is answered 500 as well, and fails each time: the second one is final.
        """
        failures = 0

        def attempt() -> Answer:
            nonlocal failures
            try:
                return self.once("GET", path, fields=fields, newer=newer, params=params, node=node)
            except exceptions.IronicUnavailable as exc:
                failures += exc.status == 500
                if is_costly and failures > 1:
                    raise answers.as_final(exc) from exc
                raise

        return self._retry.run(attempt)

    def look(
        self,
        path: str,
        *,
        result: Callable[[Answer], T],
        fields: Sequence[str] = (),
        newer: Sequence[str] = (),
        params: Mapping[str, str] | None = None,
        node: str | None = None,
    ) -> T:
        """The same, and parse the answer: one that can't be parsed is requested again, too."""
        return self._retry.run(
            lambda: result(
                self.once("GET", path, fields=fields, newer=newer, params=params, node=node)
            )
        )

    def change(
        self,
        method: str,
        path: str,
        *,
        newer: Sequence[str] = (),
        applied: Callable[[], T | None],
        result: Callable[[Answer], T],
        json: Any = None,
        node: str | None = None,
        again: Callable[[], None] | None = None,
        final: Callable[[exceptions.IronicError], bool] = lambda _: False,
    ) -> T:
        """Send a request that changes something, so that the change is made once.

        Each further try begins with the checks of :meth:`rechecking`.

        :param applied: checks by one request of its own whether the change was made; called
            after a lost reply and after an answer 500 or above, before the request is sent
            again or its error raised, also that of the last try.
        :param result: parses the answer.
        :param again: called before each further try; an error that it raises ends the
            call.  So a request that waited for a lock is not sent to a node that has
            changed meanwhile.
        :param final: whether an error says that the change failed, whatever ``applied``
            would return.
        """
        checks = self._checks if again is None else (*self._checks, again)
        reply_lost = is_unseen = False
        tries = 0

        def attempt() -> T:
            nonlocal reply_lost, is_unseen, tries
            tries += 1
            is_unseen = False
            if reply_lost:
                done = applied()
                if done is not None:
                    LOG.info("%s %s had been applied, its reply was lost", method, path)
                    return done
            if tries > 1:
                for check in checks:
                    check()
            try:
                return result(self.once(method, path, newer=newer, json=json, node=node))
            except exceptions.IronicError as exc:
                is_unseen = answers.may_have_been_applied(exc) and answers.is_transient(exc)
                reply_lost = reply_lost or answers.may_have_been_applied(exc)
                if reply_lost and not answers.is_transient(exc) and not final(exc):
                    # Refused, perhaps because the lost one came in just before; or it broke
                    # off when all was done.
                    done = applied()
                    if done is not None:
                        LOG.info("%s %s had been applied after all", method, path)
                        return done
                raise

        try:
            return self._retry.run(attempt)
        except exceptions.IronicError:
            if is_unseen:
                # It was the last try, and nobody has looked after it.
                with contextlib.suppress(exceptions.IronicError):
                    if (done := applied()) is not None:
                        LOG.info("%s %s had been applied, its last reply was lost", method, path)
                        return done
            raise

    def once(
        self,
        method: str,
        path: str,
        *,
        fields: Sequence[str] = (),
        newer: Sequence[str] = (),
        params: Mapping[str, str] | None = None,
        json: Any = None,
        node: str | None = None,
    ) -> Answer:
        """Send a request a single time; a second time if its version is refused.

        :param fields: the fields to show; empty: Ironic's default.
        :param newer: further fields, of :data:`.versions.NEWER_FIELDS`, each shown if the
            server has it.  :attr:`Answer.unasked` names the others.
        :raises MicroversionNotSupported: Ironic is too old.
        :raises IronicError: of the kind that the answer's status stands for.
        """

        def try_it() -> Answer:
            server = self._versions() if newer else self._negotiation.known
            fits = fitting(server, tuple(newer))
            query = dict(params or {})
            if fields:
                query["fields"] = ",".join((*fields, *fits.shown))
            answer = self._sent(method, path, fits.version, query, json, node)
            return dataclasses.replace(answer, unasked=fits.unasked) if fits.unasked else answer

        try:
            return try_it()
        except exceptions.IronicError as exc:
            if exc.status != NOT_ACCEPTABLE:
                raise
            # Ironic was downgraded meanwhile, or the servers behind one URL differ.
            LOG.debug("%s; it is sent again with another version", exc)
            return try_it()

    def _sent(
        self,
        method: str,
        path: str,
        version: str | None,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        node: str | None = None,
    ) -> Answer:
        start = time.monotonic()
        line = f"{method} {path or '/v1'}"
        if params and LOG.isEnabledFor(logging.DEBUG):
            line += "?" + urllib.parse.unquote(urllib.parse.urlencode(params))
        timeout = self._retry.timeout(self._timeout)
        limits = {} if timeout is None else {"timeout": timeout}
        try:
            with self._guard(method != "GET"):
                answer = self._channel.send(
                    method, path, params=params, json=json, version=version, **limits
                )
        except exceptions.IronicError as exc:
            exc.node = exc.node or node
            LOG.debug(
                "%s: no answer after %.3f s (version %s)", line, time.monotonic() - start, version
            )
            raise
        LOG.debug(
            "%s: %d in %.3f s (version %s, request %s)",
            line,
            answer.status,
            time.monotonic() - start,
            version,
            answers.request_id(answer),
        )
        if answer.status == NOT_ACCEPTABLE:
            self._negotiation.refused(answer.headers)
        else:
            self._negotiation.answered(answer.headers)
        if answer.status >= 400:
            raise answers.error_of(answer, method=method, path=path, node=node)
        return answer


def path_of(*parts: str) -> str:
    """The path of a resource, each part of which may hold any character."""
    return "".join("/" + urllib.parse.quote(part, safe="") for part in parts)


def _versions_in(body: bytes) -> ServerVersions:
    version = msgspec.json.decode(body)["version"]
    return ServerVersions.parse(str(version["min_version"]), str(version["version"]))
