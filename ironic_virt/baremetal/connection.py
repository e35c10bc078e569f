# SPDX-License-Identifier: Apache-2.0

"""From options to a channel that carries single HTTP requests.

keystoneauth1 brings authentication, TLS, the service catalog and the session;
its own retries and its logging of bodies are off, because retries live in the
client and bodies hold config drives.  The path ``/v1`` is ours, not
discovered: a discovery that fails must not turn into requests to a wrong URL.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any, Protocol

import requests
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import loading
from keystoneauth1 import session as ksa_session
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.conf import ironic as ironic_conf

DEFAULT_TIMEOUT = 60.0
"""Seconds for one request, to Keystone too, when ``[ironic] timeout`` is not set."""

# As many requests of one service as may run at once without new connections.
_POOL_SIZE = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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
    ) -> Answer:
        """Send a request.

        :param path: below ``/v1``, beginning with a slash; ``""`` is the root.
        :param version: the API microversion; ``None`` sends no version header.
        :raises IronicUnreachable: no answer, or one that was cut off.
        :raises IronicUnauthorized: no token could be had.
        """


class KeystoneChannel:
    """A :class:`Channel` over keystoneauth1.  Thread-safe."""

    def __init__(self, adapter: ksa_adapter.Adapter, timeout: float = DEFAULT_TIMEOUT) -> None:
        self._adapter = adapter
        self._timeout = timeout
        self._base: str | None = None
        self._lock = threading.Lock()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> KeystoneChannel:
        """Make a channel from the ``[ironic]`` group.

        :raises InvalidConfiguration: the authentication options are wrong.
        """
        ironic_conf.check_auth(conf)
        group = ironic_conf.GROUP
        auth = loading.load_auth_from_conf_options(conf, group)
        session = loading.load_session_from_conf_options(
            conf,
            group,
            session=_pooled_session(),
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
    ) -> Answer:
        """See :meth:`Channel.send`."""
        headers = {"Accept": "application/json"}
        if version is not None:
            headers["X-OpenStack-Ironic-API-Version"] = version
            headers["OpenStack-API-Version"] = f"baremetal {version}"
        try:
            response = self._adapter.request(
                self._base_url() + path,
                method,
                params=params,
                json=json,
                headers=headers,
                raise_exc=False,
                log=False,
                connect_retries=0,
                status_code_retries=0,
                timeout=self._timeout,
            )
            return Answer(response.status_code, response.headers, response.content)
        except (ksa_exceptions.Unauthorized, ksa_exceptions.AuthorizationFailure) as exc:
            raise exceptions.IronicUnauthorized(str(exc), method=method, path=path) from exc
        except ksa_exceptions.ClientException as exc:
            raise exceptions.IronicUnreachable(str(exc), method=method, path=path) from exc
        except requests.RequestException as exc:
            raise exceptions.IronicUnreachable(str(exc), method=method, path=path) from exc

    def _base_url(self) -> str:
        with self._lock:
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
            return self._base


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


def _pooled_session() -> requests.Session:
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, ksa_session.TCPKeepAliveAdapter(pool_maxsize=_POOL_SIZE))
    return session


def _version() -> str:
    try:
        return metadata.version("ironic-virt")
    except metadata.PackageNotFoundError:
        return "unknown"
