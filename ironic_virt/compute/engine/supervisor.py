# SPDX-License-Identifier: Apache-2.0

"""Telling systemd how the process is: sd_notify, without its library.

Where ``NOTIFY_SOCKET`` is not set nothing is sent.  A message that can't be sent is no reason
to fail.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Supervisor:
    """What started this process and watches it.  Thread-safe.

    :param environ: with ``NOTIFY_SOCKET``, the path of a datagram socket; an abstract one
        begins with ``@``.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    def ready(self) -> None:
        """The service is up."""
        self._send("READY=1")

    def standing_by(self) -> None:
        """The service waits for its turn, which is all that it has to do for now."""
        self.ready()
        self.alive()

    def stopping(self) -> None:
        """The service has begun to end."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """The service goes on; ``WatchdogSec`` is for the time between two of these."""
        self._send("WATCHDOG=1")

    def _send(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.setblocking(False)
                channel.sendto(state.encode(), self._address)
        except OSError as error:
            LOG.debug("%s could not be sent to the supervisor: %s", state, error)
