# SPDX-License-Identifier: Apache-2.0

"""How a request is sent: versions negotiated, retried, and looked after when its reply is lost.

Below it is a channel that carries single requests, above it the client that
knows what they mean.  Whatever is retried, is retried here.

Thread-safe.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import answers
from ironic_virt.baremetal.connection import Answer, Channel
from ironic_virt.baremetal.retry import RetryPolicy
from ironic_virt.baremetal.versions import Microversion, ServerVersions

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class Sender:
    """Sends requests to one Ironic.

    :param channel: carries single requests.
    :param retry: when to send them again.
    """

    def __init__(self, channel: Channel, retry: RetryPolicy) -> None:
        self._channel = channel
        self._retry = retry
        self._versions: ServerVersions | None = None
        self._versions_lock = threading.Lock()
        self._elder: Sender | None = None

    def single_try(self) -> Sender:
        """The same without retries; the server is asked for its versions once for both."""
        twin = Sender(self._channel, dataclasses.replace(self._retry, max_retries=0))
        twin._elder = self
        return twin

    @property
    def versions(self) -> ServerVersions:
        """The API versions that the server speaks, asked once."""
        if self._elder is not None:
            return self._elder.versions
        with self._versions_lock:
            if self._versions is None:
                self._versions = self._ask_versions()
                LOG.info(
                    "Ironic speaks API versions %s to %s",
                    self._versions.minimum,
                    self._versions.maximum,
                )
            return self._versions

    def _ask_versions(self) -> ServerVersions:
        answer = self._retry.run(lambda: self.once("GET", "", version=None))
        what = "an Ironic's, it names no API versions; is [ironic] endpoint_override right?"
        return answers.content(answer, _versions_in, what, path="")

    def read(
        self,
        path: str,
        *,
        version: str,
        params: Mapping[str, str] | None = None,
        node: str | None = None,
    ) -> Answer:
        """Send a GET, again and again while its trouble may pass."""
        return self._retry.run(
            lambda: self.once("GET", path, version=version, params=params, node=node)
        )

    def look(
        self,
        path: str,
        *,
        version: str,
        result: Callable[[Answer], T],
        params: Mapping[str, str] | None = None,
        node: str | None = None,
    ) -> T:
        """The same, and read the answer: one that can't be read is asked for again, too."""
        return self._retry.run(
            lambda: result(self.once("GET", path, version=version, params=params, node=node))
        )

    def change(
        self,
        method: str,
        path: str,
        *,
        version: str,
        applied: Callable[[], T | None],
        result: Callable[[Answer], T],
        json: Any = None,
        node: str | None = None,
        again: Callable[[], None] | None = None,
        final: Callable[[exceptions.IronicError], bool] = lambda _: False,
    ) -> T:
        """Send a request that changes something, and see to it that it happens once.

        :param applied: looks whether it has happened, by one request of its own;
            asked after a lost reply, before the request is sent again.
        :param result: what the answer says.
        :param again: called before it is sent again; what it raises ends that, so that
            a request that has waited for a lock is not sent to what has changed meanwhile.
        :param final: whether an error says that it has failed, whatever a look would show.
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
                return result(self.once(method, path, version=version, json=json, node=node))
            except exceptions.IronicError as exc:
                if reply_lost and not answers.is_transient(exc) and not final(exc):
                    # Refused, perhaps because the lost one came in just before.
                    done = applied()
                    if done is not None:
                        LOG.info("%s %s had been applied after all", method, path)
                        return done
                reply_lost = reply_lost or answers.may_have_been_applied(exc)
                raise

        return self._retry.run(attempt)

    def once(
        self,
        method: str,
        path: str,
        *,
        version: str | None,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        node: str | None = None,
    ) -> Answer:
        """Send a request a single time.

        :raises IronicError: of the kind that the answer's status stands for.
        """
        start = time.monotonic()
        try:
            answer = self._channel.send(method, path, params=params, json=json, version=version)
        except exceptions.IronicError as exc:
            exc.node = exc.node or node
            raise
        LOG.debug(
            "%s %s: %d in %.3f s (version %s, request %s)",
            method,
            path or "/v1",
            answer.status,
            time.monotonic() - start,
            version,
            answers.request_id(answer),
        )
        if answer.status == 406:
            self._forget_versions()
        if answer.status >= 400:
            raise answers.error_of(answer, method=method, path=path, node=node)
        return answer

    def _forget_versions(self) -> None:
        # The server was up- or downgraded while we ran: negotiate again.
        if self._elder is not None:
            self._elder._forget_versions()
            return
        with self._versions_lock:
            self._versions = None


def _versions_in(body: bytes) -> ServerVersions:
    version = msgspec.json.decode(body)["version"]
    lowest, newest = str(version["min_version"]), str(version["version"])
    return ServerVersions(Microversion.parse(lowest), Microversion.parse(newest))
