# SPDX-License-Identifier: Apache-2.0

"""From options to a channel that carries single HTTP requests.

openstacksdk's ``Connection``, made as Nova makes its own, brings the session, the service
catalog, discovery and an adapter to send with; keystoneauth1 below it authentication and TLS.
Their own retries and their logging of bodies are off, because retries live in the client and
bodies hold config drives.  No resource object is made.

Keystone is asked for a token by one thread at a time, and Ironic for where its API is, and
all who wait for it share the answer or the error.  keystoneauth1's own lock would have each of
them try in turn.
"""

from __future__ import annotations

import dataclasses
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Any, Protocol

import requests
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.http import transport
from ironic_virt.baremetal.http.endpoint import GARBLED, VERSION, Endpoint
from ironic_virt.baremetal.http.single_flight import SingleFlight
from ironic_virt.conf import ironic as ironic_conf

LOG = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 60.0
"""Seconds for one request, to Keystone too, when ``[ironic] timeout`` is not set."""

LARGEST_ANSWER = 64 << 20
"""Bytes after decompression.  A page of 1,000 nodes has 1 to 5 MiB."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer with any status.

    :ivar lacking: the newer fields of nodes that the server doesn't have.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    lacking: frozenset[str] = frozenset()


class Channel(Protocol):
    """Sends one request and returns the answer; raises an error if none came."""

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
class _Access:
    """The URL that requests go to, and the headers that authenticate them."""

    base: str
    headers: Mapping[str, str] = dataclasses.field(repr=False)
    token: int


class KeystoneChannel:
    """A :class:`Channel` over openstacksdk and keystoneauth1.  Thread-safe.

    :param adapter: knows the service, and whom to ask where it is.
    :param timeout: seconds for one request, from connecting to the end of its answer.
    :param endpoint: for tests; made from the adapter otherwise.
    :param connection: what the adapter is of; kept as long as this is.
    :param guard: asked when a change is about to leave: see :func:`transport.guarded`.
    """

    def __init__(
        self,
        adapter: ksa_adapter.Adapter,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        endpoint: Endpoint | None = None,
        connection: object = None,
        guard: Callable[[], float] | None = None,
    ) -> None:
        self._adapter = adapter
        self._guard = guard
        self._auth = adapter.auth or adapter.session.auth
        self._timeout = timeout
        self._endpoint = endpoint or Endpoint(adapter)
        self._connection = connection
        self._flight: SingleFlight[_Access] = SingleFlight()
        # Counts the tokens that Ironic has refused.
        self._token = 0
        self._lock = threading.Lock()

    @classmethod
    def from_conf(
        cls, conf: cfg.ConfigOpts, guard: Callable[[], float] | None = None
    ) -> KeystoneChannel:
        """Make a channel from the ``[ironic]`` group.  Nothing is sent yet.

        :param guard: as above.
        :raises InvalidConfiguration: the authentication options are wrong.
        """
        ironic_conf.check_adapter(conf)
        ironic_conf.check_auth(conf)
        group = ironic_conf.GROUP
        auth = loading.load_auth_from_conf_options(conf, group)
        # keystoneauth1 leaves these to a session of the caller; older ones don't have them.
        names = ("tls_ciphers", "tls_min_version")
        tls = {name: conf[group][name] for name in names if name in conf[group]}
        session = loading.load_session_from_conf_options(
            conf,
            group,
            session=transport.session(
                LARGEST_ANSWER,
                **{name: value for name, value in tls.items() if value},
            ),
            auth=auth,
            additional_user_agent=[("ironic_virt", _version())],
        )
        # Keystone's answers are waited for no longer than Ironic's.
        session.timeout = float(conf[group].timeout or DEFAULT_TIMEOUT)
        # Imported late: commands that do not talk to Ironic save the time.
        from openstack import connection

        made = connection.Connection(
            session=session, oslo_conf=conf, service_types={ironic_conf.SERVICE_TYPE}
        )
        # If it can't use the options, it logs a line and goes on with defaults.
        if not made.config.has_service(ironic_conf.SERVICE_TYPE):
            why = made.config.get_disabled_reason(ironic_conf.SERVICE_TYPE)
            raise exceptions.InvalidConfiguration(f"[{group}]", logs.one_line(str(why)))
        # Unlike the connection's own adapter this one is made without asking Ironic.
        adapter = made.config.get_session_client(ironic_conf.SERVICE_TYPE, version=VERSION)
        # A connection that nobody holds may close its session.
        return cls(adapter, made.session.timeout, connection=made, guard=guard)

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
        """Send a request; parameters and errors are those of :class:`Channel`."""
        seconds = min(timeout or self._timeout, self._timeout)
        headers = {"Accept": "application/json"}
        if version is not None:
            headers["X-OpenStack-Ironic-API-Version"] = version
            headers["OpenStack-API-Version"] = f"baremetal {version}"

        url, is_renewed = "Keystone", False
        try:
            access = self._flight.run(self._find_access)
            while True:
                url = access.base + path
                # Not openstacksdk's own method: it counts requests and reads the project's id
                # each time, perhaps from Keystone.
                with transport.guarded(None if method == "GET" else self._guard):
                    response = ksa_adapter.Adapter.request(
                        self._adapter,
                        url,
                        method,
                        params=params,
                        json=json,
                        headers={**headers, **access.headers},
                        authenticated=False,
                        raise_exc=False,
                        log=False,
                        redirect=False,
                        connect_retries=0,
                        status_code_retries=0,
                        timeout=seconds,
                    )
                renewed = None
                if response.status_code == 401 and not is_renewed:
                    renewed = self._renew_access(access)
                if renewed is None:
                    return Answer(response.status_code, response.headers, response.content)
                access, is_renewed = renewed, True
        except transport.Away as away:
            self._endpoint.failed()
            if (passing := away.response) is not None:
                return Answer(passing.status_code, passing.headers, passing.content)
            error = away.__cause__ or away
            # What keystoneauth1 says has the whole URL, which a traceback would tell.
            raise self._error_of(error, away.url, method, path, self._timeout) from None
        # requests' errors, and those of a file that can't be read, are errors of the system.
        except (ksa_exceptions.ClientException, OSError) as exc:
            if url != "Keystone":
                self._endpoint.failed()
            raise self._error_of(exc, url, method, path, seconds) from None

    def _find_access(self) -> _Access:
        token = self._token
        try:
            headers = self._adapter.session.get_auth_headers(self._auth) or {}
            return _Access(self._endpoint.url(), dict(headers), token)
        except OSError:  # some of requests' are errors of values as well
            raise
        except GARBLED as exc:
            # All is asked again at the next try.  keystoneauth1 keeps what it could not read.
            self._adapter.session.invalidate(self._auth)
            for keeper in (self._adapter.session, self._auth):
                getattr(keeper, "_discovery_cache", {}).clear()
            message = logs.one_line(repr(exc))
            raise exceptions.IronicUnreachable(
                f"Keystone's answer can't be read: {message}"
            ) from exc

    def _renew_access(self, refused: _Access) -> _Access | None:
        """Return the access with another token; ``None``: Keystone gives no other."""
        with self._lock:
            # Another thread may have had the same token refused.
            if refused.token == self._token:
                if not self._adapter.session.invalidate(self._auth):
                    return None
                self._token += 1
        access = self._flight.run(self._find_access)
        # It may have been on its way with the old one.
        return access if access.token != refused.token else self._flight.run(self._find_access)

    def _error_of(
        self, error: BaseException, url: str, method: str, path: str, seconds: float
    ) -> exceptions.IronicError:
        chain = list(_chain(error))
        kind: type[exceptions.IronicError] = exceptions.IronicUnreachable
        text = logs.one_line(str(chain[-1])) or type(chain[-1]).__name__
        sent = next((e.request for e in chain if isinstance(e, requests.RequestException)), None)
        if sent is not None and sent.url:
            url = sent.url
        url = transport.shown(url)
        refused = (transport.Redirected, transport.AnswerTooLarge)
        if refusal := next((e for e in chain if isinstance(e, refused)), None):
            kind, text = exceptions.UnexpectedAnswer, logs.one_line(str(refusal))
        elif isinstance(error, ksa_exceptions.Unauthorized | ksa_exceptions.AuthorizationFailure):
            kind, text = exceptions.IronicUnauthorized, logs.one_line(str(error))
        elif any(_is_about_certificates(e) for e in chain):
            kind = exceptions.CertificateNotTrusted
            text = (
                f"TLS with {url} failed: {text}. See [ironic] cafile, "
                "certfile, keyfile and insecure"
            )
        elif any(isinstance(e, TimeoutError | requests.Timeout) for e in chain):
            text = f"no whole answer from {url} within {seconds:g} s"
        else:
            text = f"no answer from {url}: {text}"
        return kind(text, method=method, path=path)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it came from, down to the system's own."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def _is_about_certificates(error: BaseException) -> bool:
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    is_tls = isinstance(error, requests.exceptions.SSLError | ssl.SSLError)
    # For a missing file, requests raises a plain OSError.
    is_plain = type(error) is OSError
    message = str(error).lower()
    return (is_tls and ("certificate" in message or "unknown ca" in message)) or (
        is_plain and "tls" in message
    )


def _version() -> str:
    try:
        return metadata.version("ironic-virt")
    except metadata.PackageNotFoundError:
        return "unknown"
