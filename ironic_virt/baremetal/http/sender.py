# SPDX-License-Identifier: Apache-2.0

"""Sends requests: negotiates versions, retries, and checks what happened to lost replies.

Below it is a channel that carries single requests, above it the client that
knows what they mean.  All retries are made here.  Each try has the API version that
Ironic speaks at that time.

Thread-safe.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
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
from ironic_virt.baremetal.http.versions import Feature, Microversion, ServerVersions

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


NOTHING: Mapping[str, Feature] = {}


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
        self._negotiation = Negotiation(self._ask_versions, retry.clock)
        self._limits: Mapping[str, float] = {}

    def single_try(self) -> Sender:
        """The same without retries; both share what is known of the server's versions."""
        twin = copy.copy(self)
        twin._retry = dataclasses.replace(self._retry, max_retries=0)
        return twin

    def within(self, timeout: float) -> Sender:
        """The same with a shorter timeout for each answer, in seconds."""
        twin = copy.copy(self)
        twin._limits = {"timeout": timeout}
        return twin

    @property
    def versions(self) -> ServerVersions:
        """The API versions that Ironic speaks, as far as is known."""
        return self._retry.run(self._negotiation.versions)

    def has(self, feature: Feature) -> bool:
        """Whether Ironic has a feature; its versions are read again before the answer is no."""
        return self._retry.run(lambda: self._negotiation.has(feature))

    def require(self, feature: Feature) -> None:
        """Raise if Ironic lacks a feature.

        :raises MicroversionNotSupported: Ironic is too old, with the version needed and found.
        """
        self._retry.run(lambda: self._negotiation.with_all([feature]))

    def _ask_versions(self) -> ServerVersions:
        answer = self._sent("GET", "", None)
        what = "an Ironic's, it names no API versions; is [ironic] endpoint_override right?"
        return answers.content(answer, _versions_in, what, path="")

    def read(
        self,
        path: str,
        *,
        needs: Sequence[Feature] = (),
        fields: Sequence[str] = (),
        optional: Mapping[str, Feature] = NOTHING,
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
                return self.once(
                    "GET",
                    path,
                    needs=needs,
                    fields=fields,
                    optional=optional,
                    params=params,
                    node=node,
                )
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
        optional: Mapping[str, Feature] = NOTHING,
        params: Mapping[str, str] | None = None,
        node: str | None = None,
    ) -> T:
        """The same, and parse the answer: one that can't be parsed is requested again, too."""
        return self._retry.run(
            lambda: result(
                self.once("GET", path, fields=fields, optional=optional, params=params, node=node)
            )
        )

    def change(
        self,
        method: str,
        path: str,
        *,
        needs: Sequence[Feature] = (),
        optional: Mapping[str, Feature] = NOTHING,
        applied: Callable[[], T | None],
        result: Callable[[Answer], T],
        json: Any = None,
        node: str | None = None,
        again: Callable[[], None] | None = None,
        final: Callable[[exceptions.IronicError], bool] = lambda _: False,
    ) -> T:
        """Send a request that changes something, so that the change is made once.

        :param applied: checks by one request of its own whether the change was made; called
            after a lost reply and after an answer 500 or above, before the request is sent
            again or its error raised.
        :param result: parses the answer.
        :param again: called before each further try; an error that it raises ends the
            call.  So a request that waited for a lock is not sent to a node that has
            changed meanwhile.
        :param final: whether an error says that the change failed, whatever ``applied``
            would return.
        """
        reply_lost = False
        tries = 0

        def attempt() -> T:
            nonlocal reply_lost, tries
            tries += 1
            if reply_lost:
                done = applied()
                if done is not None:
                    LOG.info("%s %s had been applied, its reply was lost", method, path)
                    return done
            if again is not None and tries > 1:
                again()
            try:
                answer = self.once(
                    method, path, needs=needs, optional=optional, json=json, node=node
                )
                return result(answer)
            except exceptions.IronicError as exc:
                reply_lost = reply_lost or answers.may_have_been_applied(exc)
                if reply_lost and not answers.is_transient(exc) and not final(exc):
                    # Refused, perhaps because the lost one came in just before; or it broke
                    # off when all was done.
                    done = applied()
                    if done is not None:
                        LOG.info("%s %s had been applied after all", method, path)
                        return done
                raise

        return self._retry.run(attempt)

    def once(
        self,
        method: str,
        path: str,
        *,
        needs: Sequence[Feature] = (),
        fields: Sequence[str] = (),
        optional: Mapping[str, Feature] = NOTHING,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        node: str | None = None,
    ) -> Answer:
        """Send a request a single time; a second time if its version is refused.

        :param needs: features that the server must have.
        :param fields: the fields to show; empty: Ironic's default.
        :param optional: further fields, each shown if the server has its feature.
            :attr:`Answer.unasked` names the others.
        :raises MicroversionNotSupported: Ironic is too old.
        :raises IronicError: of the kind that the answer's status stands for.
        """

        def try_it() -> Answer:
            versions = self._negotiation.with_all(needs, optional.values())
            version, shown, unasked = _suited(versions, (*needs,), (*optional.items(),))
            query = dict(params or {})
            if fields:
                query["fields"] = ",".join((*fields, *shown))
            answer = self._sent(method, path, version, query, json, node)
            return dataclasses.replace(answer, unasked=unasked) if unasked else answer

        try:
            return try_it()
        except exceptions.IronicError as exc:
            if exc.status != NOT_ACCEPTABLE:
                raise
            LOG.debug("%s; Ironic is asked for its versions again", exc)
        # It was upgraded or downgraded meanwhile, or the servers behind one URL differ.
        self._negotiation.ask()
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
        try:
            with self._guard(method != "GET"):
                answer = self._channel.send(
                    method, path, params=params, json=json, version=version, **self._limits
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
        if answer.status >= 400:
            raise answers.error_of(answer, method=method, path=path, node=node)
        return answer


def path_of(*parts: str) -> str:
    """The path of a resource, each part of which may hold any character."""
    return "".join("/" + urllib.parse.quote(part, safe="") for part in parts)


def _versions_in(body: bytes) -> ServerVersions:
    version = msgspec.json.decode(body)["version"]
    lowest, newest = str(version["min_version"]), str(version["version"])
    return ServerVersions(Microversion.parse(lowest), Microversion.parse(newest))


@functools.lru_cache(maxsize=256)
def _suited(
    versions: ServerVersions,
    needs: tuple[Feature, ...],
    optional: tuple[tuple[str, Feature], ...],
) -> tuple[str, list[str], frozenset[str]]:
    """The version to send, the optional fields that the server has, and those that it lacks.

    Cached: a spawn sends the same few requests again and again.
    """
    shown = {name: feature for name, feature in optional if versions.has(feature)}
    version = versions.carrying(*needs, *shown.values())
    unasked = frozenset(name for name, _ in optional if name not in shown)
    return str(version), list(shown), unasked
