# SPDX-License-Identifier: Apache-2.0

"""Which API versions Ironic speaks now, as each of its answers says in two headers.

An Ironic is several API servers, which are upgraded one after the other.  So what one of
them refuses counts for all of them for some minutes, and what one of them has counts only
after that.  Nothing that decides depends on it: see :data:`~.versions.FLOOR`.

Thread-safe; nothing is asked here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from oslo_log import log as logging

from ironic_virt.baremetal.http.versions import FLOOR, ServerVersions

LOG = logging.getLogger(__name__)

MIXED_FOR = 300.0
"""Seconds for which Ironic counts as being upgraded after a version was refused."""

_MINIMUM = "X-OpenStack-Ironic-API-Minimum-Version"
_MAXIMUM = "X-OpenStack-Ironic-API-Maximum-Version"


class Negotiation:
    """The API versions of one Ironic.

    :ivar known: ``None``: none of its servers has answered yet.

    :param clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.known: ServerVersions | None = None
        self._clock = clock
        self._refused_at = float("-inf")

    def answered(self, headers: Mapping[str, str]) -> None:
        """Note what the headers of an answer say; a newer server than before is used soon.

        :raises MicroversionNotSupported: the server is too old for the driver.
        """
        server = _server_of(headers)
        if server is None or server == self.known:
            return
        known = self.known
        is_mixed = self._clock() - self._refused_at < MIXED_FOR
        if known is None or (server.maximum > known.maximum and not is_mixed):
            self.note(server)

    def refused(self, headers: Mapping[str, str]) -> None:
        """Note that a server refused the version of a request; the next try fits it.

        :raises MicroversionNotSupported: the server is too old for the driver.
        """
        self._refused_at = self._clock()
        # A proxy may hide the headers.
        self.note(_server_of(headers) or ServerVersions(FLOOR, FLOOR))

    def note(self, server: ServerVersions) -> ServerVersions:
        """Take a server's versions for Ironic's.

        :raises MicroversionNotSupported: the server is too old for the driver.
        """
        server.require_floor()
        if server != self.known:
            LOG.info("Ironic speaks API versions %s to %s", server.minimum, server.maximum)
        self.known = server
        return server


def _server_of(headers: Mapping[str, str]) -> ServerVersions | None:
    try:
        return ServerVersions.parse(headers[_MINIMUM], headers[_MAXIMUM])
    except (LookupError, ValueError):
        return None
