# SPDX-License-Identifier: Apache-2.0

"""What is sent to Ironic, and the two ways to send it: :meth:`Sender.read` and
:meth:`Sender.change`.

Below it is a channel that carries single requests, above it the client that
knows what they mean.  All retries are made here: a try that fails with a transient error
is followed by another, as :class:`.retry.RetryPolicy` says.  A try is a request and the parsing
of its answer.  A call within another call's try, such as a read of the node, is not retried
separately: the outer try fails with it, and is repeated as a whole.  Otherwise each try could
take as long as all of them together.

Thread-safe.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import dataclasses
import functools
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.http.connection import Answer, Channel
from ironic_virt.baremetal.http.retry import Failures, RetryPolicy
from ironic_virt.baremetal.http.versions import Negotiation, Pinned, ServerVersions

LOG = logging.getLogger(__name__)

T = TypeVar("T")

NOT_ACCEPTABLE = 406

Guard = Callable[[bool], contextlib.AbstractContextManager[object]]
"""Wraps each request: gets whether it changes something, and raises if it must not be sent."""

Observe = Callable[[str, str, str, float], None]
"""Called after each request with the method, the path, the answer's status (``none``: no
answer; ``refused``: Keystone gave no token) and the seconds that it took."""

_LEAST_TIMEOUT = 1.0

# A new thread starts with an empty context.
_WITHIN_A_TRY = contextvars.ContextVar("within a try", default=False)
_DEADLINE: contextvars.ContextVar[float | None] = contextvars.ContextVar("deadline", default=None)


class RequestFence(Protocol):
    """Keeps a process from changing anything whose place another one has taken."""

    def sending(self, change: bool) -> contextlib.AbstractContextManager[object]:
        """Return a block for one request; raises if it changes something and may not."""

    def may_change(self) -> float:
        """Return for how many seconds a change may go on being sent; raises if it may not."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A request.

    :ivar path: below ``/v1``, of :func:`path_of`.
    :ivar params: the query, but for the fields.
    :ivar fields: the fields to show; empty: Ironic's default.  Those of
        :data:`.versions.NEWER_FIELDS` that the server lacks are left out, and named by
        :attr:`Answer.lacking`.
    :ivar json: the body.
    :ivar node: the node that it is about, for errors.
    :ivar is_costly: a conductor works the answer out, perhaps by asking the hardware.  What
        fails there is answered 500 as well, and fails each time: the second one is final.
    """

    method: str
    path: str
    params: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fields: Sequence[str] = ()
    json: Any = dataclasses.field(default=None, repr=False)
    node: str | None = None
    is_costly: bool = False


def path_of(*parts: str) -> str:
    """The path of a resource; its parts may hold any character, and are quoted."""
    return "".join(["/" + urllib.parse.quote(part, safe="") for part in parts])


@contextlib.contextmanager
def hurry_requests(deadline: float) -> Iterator[None]:
    """Try each request of this thread once in the block, none for longer than to a time.

    For what is done by the way, while somebody waits for something else.

    :param deadline: on the clock of :class:`RetryPolicy`.
    """
    token = _DEADLINE.set(deadline)
    try:
        with _single_tries():
            yield
    finally:
        _DEADLINE.reset(token)


class Sender:
    """Sends requests to one Ironic.

    :param channel: carries single requests.
    :param retry: when to send them again.
    :param guard: around each request.
    :param observe: called after each request.
    """

    def __init__(
        self,
        channel: Channel,
        retry: RetryPolicy,
        guard: Guard | None = None,
        observe: Observe | None = None,
    ) -> None:
        self._channel = channel
        self._retry = retry
        self._guard: Guard = guard or (lambda _: contextlib.nullcontext())
        self._observe = observe
        self._negotiation = Negotiation(retry.clock)
        self._timeout: float | None = None
        self._checks: tuple[Callable[[], object], ...] = ()

    def single_try(self) -> Sender:
        """Return a sender without retries; both share what is known of Ironic's versions."""
        twin = copy.copy(self)
        twin._retry = dataclasses.replace(self._retry, max_retries=0)
        return twin

    def within(self, timeout: float) -> Sender:
        """Return a sender with a shorter timeout for each answer, in seconds."""
        twin = copy.copy(self)
        twin._timeout = timeout
        return twin

    def rechecking(self, check: Callable[[], object]) -> Sender:
        """Return a sender whose changes call a check before each further try.

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
        return self._try_until_done(self._pin_version).server

    def read(self, call: Call, parse: Callable[[Answer], T]) -> T:
        """Send a GET, and send it again after transient errors.

        :param parse: reads the answer; its transient errors are followed by another try, too.
        :raises IronicError: the last try's error.
        """
        attempt = functools.partial(self._try, call, parse)
        return self._try_until_done(_final_if_repeated(attempt) if call.is_costly else attempt)

    def change(
        self,
        call: Call,
        applied: Callable[[], T | None],
        parse: Callable[[Answer], T],
        *,
        final: Callable[[exceptions.IronicError], bool] = lambda _: False,
    ) -> T:
        """Send a request that changes something, so that the change is made once.

        Each further try begins with the checks of :meth:`rechecking`.

        :param applied: checks by one read whether the change was made; called
            after a lost reply and after an answer 500 or above, before the request is sent
            again or its error raised, also that of the last try.
        :param parse: reads the answer.
        :param final: whether an error proves that the change failed; then ``applied`` is not
            called.
        """
        reply_lost = is_unseen = False
        tries = 0

        def attempt() -> T:
            nonlocal reply_lost, is_unseen, tries
            tries += 1
            is_unseen = False
            if reply_lost and (result := applied()) is not None:
                LOG.info("%s %s had been applied, its reply was lost", call.method, call.path)
                return result
            if tries > 1:
                for check in self._checks:
                    check()
            # If the versions can't be read, the change has not been sent.
            self._pin_version()
            try:
                return self._try(call, parse)
            except exceptions.IronicError as exc:
                is_unseen = answers.may_have_been_applied(exc) and answers.is_transient(exc)
                reply_lost = reply_lost or answers.may_have_been_applied(exc)
                # Refused, perhaps because the lost one came in just before; or it broke off
                # when all was done.
                is_over = not answers.is_transient(exc) and not final(exc)
                if reply_lost and is_over and (result := applied()) is not None:
                    LOG.info("%s %s had been applied after all", call.method, call.path)
                    return result
                raise

        try:
            return self._try_until_done(attempt)
        except exceptions.IronicError:
            if is_unseen:
                # It was the last try, and nobody has looked after it.
                with contextlib.suppress(exceptions.IronicError), _single_tries():
                    if (result := applied()) is not None:
                        LOG.info(
                            "%s %s was applied, although its last reply was lost",
                            *(call.method, call.path),
                        )
                        return result
            raise

    def _try_until_done(self, attempt: Callable[[], T]) -> T:
        """Call ``attempt`` until it returns, or raises an error that will not pass."""
        if _WITHIN_A_TRY.get():
            return attempt()
        began, failures = self._retry.clock(), None
        while True:
            try:
                with _single_tries():
                    return attempt()
            except exceptions.IronicError as exc:
                failures = failures or Failures(self._retry, began)
                pause = failures.pause(exc)
                if pause is None:
                    raise
                LOG.debug("%s; try %d follows in %.1f s", exc, failures.tries + 1, pause)
            self._retry.sleep(pause)

    def _try(self, call: Call, parse: Callable[[Answer], T]) -> T:
        """Send a request a single time; a second time if its version is refused."""
        pinned = self._pin_version()
        answer = self._send(call, pinned)
        if answer.status == NOT_ACCEPTABLE:
            # Ironic was downgraded meanwhile, or the servers behind one URL differ.
            pinned = self._negotiation.refused(answer.headers)
            answer = self._send(call, pinned)
        if answer.status == NOT_ACCEPTABLE:
            self._negotiation.refused(answer.headers)
        else:
            self._negotiation.answered(answer.headers)
        if pinned.lacking:
            answer = dataclasses.replace(answer, lacking=pinned.lacking)
        return _parse_answer(call, answer, parse)

    def _pin_version(self) -> Pinned:
        """:raises MicroversionNotSupported: Ironic is too old for the driver."""
        if self._negotiation.pinned is not None:
            return self._negotiation.pinned
        return self._negotiation.pin(
            _parse_answer(_ROOT, self._send(_ROOT, None), _parse_versions)
        )

    def _send(self, call: Call, pinned: Pinned | None) -> Answer:
        params = dict(call.params)
        if pinned is not None and call.fields:
            shown = [name for name in call.fields if name not in pinned.lacking]
            params["fields"] = ",".join(shown)
        version = pinned.version if pinned is not None else None
        timeout = self._timeout
        if (deadline := _DEADLINE.get()) is not None:
            remaining = max(deadline - self._retry.clock(), _LEAST_TIMEOUT)
            timeout = remaining if timeout is None else min(timeout, remaining)
        limits = {} if timeout is None else {"timeout": timeout}
        with self._guard(call.method != "GET"):
            start, status, answer = self._retry.clock(), "none", None
            try:
                answer = self._channel.send(
                    call.method,
                    call.path,
                    params=params,
                    json=call.json,
                    version=version,
                    **limits,
                )
                status = str(answer.status)
                return answer
            except exceptions.IronicError as exc:
                exc.node = exc.node or call.node
                if isinstance(exc, exceptions.IronicUnauthorized):
                    status = "refused"
                raise
            finally:
                seconds = self._retry.clock() - start
                if self._observe is not None:
                    self._observe(call.method, call.path, status, seconds)
                if LOG.isEnabledFor(logging.DEBUG):
                    query = urllib.parse.unquote(urllib.parse.urlencode(params))
                    LOG.debug(
                        "%s %s%s: %s in %.3f s (version %s, request %s)",
                        call.method,
                        call.path or "/v1",
                        f"?{query}" if query else "",
                        status,
                        seconds,
                        version,
                        answers.request_id(answer) if answer else None,
                    )


_ROOT = Call("GET", "")


@contextlib.contextmanager
def _single_tries() -> Iterator[None]:
    token = _WITHIN_A_TRY.set(True)
    try:
        yield
    finally:
        _WITHIN_A_TRY.reset(token)


def _final_if_repeated(attempt: Callable[[], T]) -> Callable[[], T]:
    """Return an attempt whose second answer 500 is final: the first one may pass."""
    failures = 0

    def limited() -> T:
        nonlocal failures
        try:
            return attempt()
        except exceptions.IronicUnavailable as exc:
            failures += exc.status == 500
            if failures > 1:
                raise exceptions.IronicError(**vars(exc)) from exc
            raise

    return limited


def _parse_answer(call: Call, answer: Answer, parse: Callable[[Answer], T]) -> T:
    """Parse an answer; an error is raised with the request and the node that it is about."""
    try:
        if answer.status >= 400:
            raise answers.error_of(answer, method=call.method, path=call.path, node=call.node)
        return parse(answer)
    except exceptions.IronicError as exc:
        exc.status = exc.status or answer.status
        exc.request_id = answers.request_id(answer)
        exc.method, exc.path, exc.node = call.method, call.path, exc.node or call.node
        raise


def _parse_versions(answer: Answer) -> ServerVersions:
    try:
        version = msgspec.json.decode(answer.body)["version"]
        return ServerVersions.parse(str(version["min_version"]), str(version["version"]))
    except (LookupError, TypeError, *answers.UNREADABLE) as exc:
        raise exceptions.UnexpectedAnswer(
            "the answer is not an Ironic's, it names no API versions; is [ironic] "
            "endpoint_override right?"
        ) from exc
