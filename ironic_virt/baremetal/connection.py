# SPDX-License-Identifier: Apache-2.0

"""From options to a channel that carries single HTTP requests.

keystoneauth1 brings authentication, TLS, the service catalog and the session;
its own retries and its logging of bodies are off, because retries live in the
client and bodies hold config drives.  The path ``/v1`` is ours, not
discovered: a discovery that fails must not turn into requests to a wrong URL.

Keystone is asked by one thread at a time, and all who wait for it share the answer or the
error.  keystoneauth1's own lock would have each of them try in turn.
"""

from __future__ import annotations

import dataclasses
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Protocol

import requests
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import identity, loading
from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import texts, transport
from ironic_virt.baremetal.flight import SingleFlight
from ironic_virt.conf import ironic as ironic_conf

LOG = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 60.0
"""Seconds for one request, to Keystone too, when ``[ironic] timeout`` is not set."""

LOOK_UP_AGAIN = 60.0
"""Seconds between two looks at the catalogue while the endpoint that it names fails."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, whatever its status.

    :ivar unasked: the fields that were wanted, but that the server is too old for.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    unasked: frozenset[str] = frozenset()


class Channel(Protocol):
    """Sends one request and returns the answer, or raises that there was none."""

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | Sequence[str]] | None = None,
        json: Any = None,
        version: str | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """Send a request.

        :param path: below ``/v1``, beginning with a slash; ``""`` is the root.
        :param version: the API microversion; ``None`` sends no version header.
        :param timeout: seconds to wait for the whole answer, if less than usual.
        :raises IronicUnreachable: no answer, or one that was cut off, or late.
        :raises IronicUnauthorized: no token could be had.
        :raises CertificateNotTrusted: the certificate of Ironic or Keystone.
        :raises UnexpectedAnswer: a redirect, or an answer that is too large.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class _Way:
    """Where requests go, and with what they are let in."""

    base: str
    headers: Mapping[str, str] = dataclasses.field(repr=False)
    token: int


class KeystoneChannel:
    """A :class:`Channel` over keystoneauth1.  Thread-safe.

    :param timeout: seconds for one request, from connecting to the end of its answer.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        adapter: ksa_adapter.Adapter,
        timeout: float = DEFAULT_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._adapter = adapter
        self._timeout = timeout
        self._clock = clock
        self._base: str | None = None
        self._looked_up_at = 0.0
        self._has_failed = False
        self._flight: SingleFlight[_Way] = SingleFlight()
        # Counts the tokens that Ironic has refused.
        self._token = 0
        self._lock = threading.Lock()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> KeystoneChannel:
        """Make a channel from the ``[ironic]`` group.

        :raises InvalidConfiguration: the authentication options are wrong.
        """
        ironic_conf.check_adapter(conf)
        ironic_conf.check_auth(conf)
        group = ironic_conf.GROUP
        auth = loading.load_auth_from_conf_options(conf, group)
        # keystoneauth1 leaves these to a session of the caller.
        tls = {name: conf[group].get(name) for name in ("tls_ciphers", "tls_min_version")}
        session = loading.load_session_from_conf_options(
            conf,
            group,
            session=transport.session(
                conf[group].answer_size_limit << 20,
                **{name: value for name, value in tls.items() if value},
            ),
            auth=auth,
            additional_user_agent=[("ironic_virt", _version())],
        )
        # Keystone's answers are waited for no longer than Ironic's.
        session.timeout = float(conf[group].timeout or DEFAULT_TIMEOUT)
        adapter = loading.load_adapter_from_conf_options(conf, group, session=session, auth=auth)
        return cls(adapter, session.timeout)

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | Sequence[str]] | None = None,
        json: Any = None,
        version: str | None = None,
        timeout: float | None = None,
    ) -> Answer:
        """See :meth:`Channel.send`."""
        seconds = min(timeout or self._timeout, self._timeout)
        headers = {"Accept": "application/json"}
        if version is not None:
            headers["X-OpenStack-Ironic-API-Version"] = version
            headers["OpenStack-API-Version"] = f"baremetal {version}"

        def request(way: _Way) -> requests.Response:
            return self._adapter.request(
                way.base + path,
                method,
                params=params,
                json=json,
                headers={**headers, **way.headers},
                authenticated=False,
                raise_exc=False,
                log=False,
                redirect=False,
                connect_retries=0,
                status_code_retries=0,
                timeout=seconds,
            )

        where = "Keystone"
        try:
            way = self._flight.run(self._find_way)
            where = way.base + path
            response = request(way)
            if response.status_code == 401 and (other := self._renewed(way)):
                response = request(other)
            return Answer(response.status_code, response.headers, response.content)
        # requests' errors, and those of a file that can't be read, are errors of the system.
        except (ksa_exceptions.ClientException, OSError) as exc:
            self._has_failed = self._has_failed or where != "Keystone"
            raise self._error_of(exc, where, method, path, seconds) from exc

    def _find_way(self) -> _Way:
        self._look_up_again()
        token = self._token
        headers = self._adapter.session.get_auth_headers(self._adapter.auth) or {}
        if self._base is None:
            # Asks Keystone for the catalog unless endpoint_override is set.
            try:
                endpoint = self._adapter.get_endpoint()
            except ksa_exceptions.CatalogException:
                endpoint = None
            if not endpoint:
                raise exceptions.IronicUnreachable(
                    "the service catalog has no bare metal endpoint for this region and "
                    "interface; see [ironic] service_type, region_name, valid_interfaces "
                    "and endpoint_override"
                )
            endpoint = endpoint.rstrip("/")
            self._base = endpoint if endpoint.endswith("/v1") else endpoint + "/v1"
            self._looked_up_at = self._clock()
        return _Way(self._base, dict(headers), token)

    def _look_up_again(self) -> None:
        """After a failure, ask Keystone for its catalogue, which comes with a token."""
        auth = self._adapter.auth
        if (
            not self._has_failed
            or self._base is None
            or self._adapter.endpoint_override
            or not isinstance(auth, identity.BaseIdentityPlugin)
            or self._clock() - self._looked_up_at < LOOK_UP_AGAIN
        ):
            return
        self._has_failed = False
        self._looked_up_at = self._clock()
        try:
            auth.auth_ref = auth.get_auth_ref(self._adapter.session)
        except (ksa_exceptions.ClientException, OSError) as exc:
            # The token at hand may still do.
            LOG.debug("Where Ironic is can't be looked up again: %s", texts.plain(str(exc)))
            return
        self._base = None

    def _renewed(self, refused: _Way) -> _Way | None:
        """The way with another token; ``None``: Keystone gives no other."""
        with self._lock:
            # Another thread may have had the same token refused.
            if refused.token == self._token:
                if not self._adapter.session.invalidate(self._adapter.auth):
                    return None
                self._token += 1
        way = self._flight.run(self._find_way)
        # It may have been on its way with the old one.
        return way if way.token != refused.token else self._flight.run(self._find_way)

    def _error_of(
        self, error: Exception, where: str, method: str, path: str, seconds: float
    ) -> exceptions.IronicError:
        chain = list(_chain(error))
        kind: type[exceptions.IronicError] = exceptions.IronicUnreachable
        text = texts.plain(str(chain[-1])) or type(chain[-1]).__name__
        sent = next((e.request for e in chain if isinstance(e, requests.RequestException)), None)
        if sent is not None and sent.url:
            where = sent.url.partition("?")[0]
        refused = (transport.Redirected, transport.AnswerTooLarge)
        if found := next((e for e in chain if isinstance(e, refused)), None):
            kind, text = exceptions.UnexpectedAnswer, texts.plain(str(found))
        elif isinstance(error, ksa_exceptions.Unauthorized | ksa_exceptions.AuthorizationFailure):
            kind, text = exceptions.IronicUnauthorized, texts.plain(str(error))
        elif any(_is_about_certificates(e) for e in chain):
            kind = exceptions.CertificateNotTrusted
            text = (
                f"TLS with {where} failed: {text}. See [ironic] cafile, "
                "certfile, keyfile and insecure"
            )
        elif any(isinstance(e, TimeoutError | requests.Timeout) for e in chain):
            text = f"no whole answer from {where} within {seconds:g} s"
        else:
            text = f"no answer from {where}: {text}"
        return kind(text, method=method, path=path)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it came from, down to the system's own."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _is_about_certificates(error: BaseException) -> bool:
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    is_tls = isinstance(error, requests.exceptions.SSLError | ssl.SSLError)
    # requests names a file that is missing by an error of no kind of its own.
    is_plain = type(error) is OSError
    said = str(error).lower()
    return (is_tls and ("certificate" in said or "unknown ca" in said)) or (
        is_plain and "tls" in said
    )


class ObservedChannel:
    """A :class:`Channel` that tells of each request that went over another one.

    :param observe: given the method, the answer's status (``None``: there was
        no answer) and the seconds that it took.
    """

    def __init__(
        self,
        channel: Channel,
        observe: Callable[[str, int | None, float], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel = channel
        self._observe = observe
        self._clock = clock

    def send(self, method: str, path: str, **request: Any) -> Answer:
        """See :meth:`Channel.send`."""
        began = self._clock()
        try:
            answer = self._channel.send(method, path, **request)
        except exceptions.IronicError:
            self._observe(method, None, self._clock() - began)
            raise
        self._observe(method, answer.status, self._clock() - began)
        return answer


def _version() -> str:
    try:
        return metadata.version("ironic-virt")
    except metadata.PackageNotFoundError:
        return "unknown"
