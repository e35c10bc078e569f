# SPDX-License-Identifier: Apache-2.0

"""What tooz's driver for etcd lacks: several members, and a user with a password."""

from __future__ import annotations

import time
import urllib.parse
from typing import Any

_TOKEN_SECONDS = 60.0
"""For which a token is used; some live for minutes."""


class EtcdMembers:
    """The members of a cluster that a URL names; one is asked, until it fails.

    :param url: ``etcd3+http://user:password@host:port,host:port,host:port?option=value``.
    """

    def __init__(self, url: str) -> None:
        self._parts = urllib.parse.urlsplit(url)
        user, _, addresses = self._parts.netloc.rpartition("@")
        self._user = [urllib.parse.unquote(text) for text in user.split(":", 1)] if user else []
        self._addresses = addresses.split(",")
        self._log_in_at = 0.0

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
        """Have an etcd3gw client send a fresh token of the user, if there is one."""
        if not self._user or time.monotonic() < self._log_in_at:
            return
        client.session.headers.pop("Authorization", None)
        answer = client.session.post(
            client.get_url("/auth/authenticate"),
            json={"name": self._user[0], "password": "".join(self._user[1:])},
            timeout=client.timeout,
        )
        answer.raise_for_status()
        client.session.headers["Authorization"] = answer.json()["token"]
        self._log_in_at = time.monotonic() + _TOKEN_SECONDS

    def turn_to_next(self, client: Any) -> None:
        """Have the next one asked, which may not know the token."""
        self._addresses.append(self._addresses.pop(0))
        address = urllib.parse.urlsplit(self.url)
        client.host, client.port = address.hostname, address.port or client.port
        self._log_in_at = 0.0
