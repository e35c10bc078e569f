# SPDX-License-Identifier: Apache-2.0

"""What tooz's driver for etcd lacks: several members, and a user with a password.

One member is asked at a time.  After a failure it is the next one's turn, so a request is never
sent twice.
"""

from __future__ import annotations

import urllib.parse
from typing import Any

import requests

_SECONDS = 10.0


class Members:
    """The members of a cluster that a URL names.

    :param url: ``etcd3+http://user:password@host:port,host:port,host:port?option=value``.
    """

    def __init__(self, url: str) -> None:
        self._parts = urllib.parse.urlsplit(url)
        user, _, addresses = self._parts.netloc.rpartition("@")
        self._user = [urllib.parse.unquote(text) for text in user.split(":", 1)] if user else []
        self._addresses = addresses.split(",")

    def __len__(self) -> int:
        return len(self._addresses)

    @property
    def address(self) -> str:
        """Of the one that is asked."""
        return self._addresses[0]

    @property
    def url(self) -> str:
        """That of the one that is asked, as tooz takes it."""
        return self._parts._replace(netloc=self.address).geturl()

    def log_in(self, client: Any) -> None:
        """Have an etcd3gw client send the token of the user, if there is one."""
        if self._user:
            client.session.auth = _Token(client, self._user[0], "".join(self._user[1:]))

    def turn(self, client: Any) -> None:
        """Have the next one asked."""
        self._addresses.append(self._addresses.pop(0))
        address = urllib.parse.urlsplit(self.url)
        client.host, client.port = address.hostname, address.port or client.port


class _Token(requests.auth.AuthBase):
    """The token that etcd gives for a name and a password, until it refuses it."""

    def __init__(self, client: Any, name: str, password: str) -> None:
        self._client = client
        self._user = {"name": name, "password": password}
        self._token = ""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if request.path_url != "/version":
            request.headers["Authorization"] = self._token or self._renewed()
            request.register_hook("response", self._check)  # type: ignore[no-untyped-call]
        return request

    def _check(self, response: requests.Response, **how: Any) -> requests.Response:
        if response.status_code != requests.codes["unauthorized"]:
            return response
        request = response.request.copy()
        request.headers["Authorization"] = self._renewed()
        return response.connection.send(request, **how)

    def _renewed(self) -> str:
        client = self._client
        answer = client.session.post(
            client.get_url("/auth/authenticate"),
            json=self._user,
            timeout=client.timeout or _SECONDS,
            auth=lambda request: request,
        )
        answer.raise_for_status()
        self._token = answer.json()["token"]
        return self._token
