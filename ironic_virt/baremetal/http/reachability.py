# SPDX-License-Identifier: Apache-2.0

"""A channel that logs whether another one reaches Ironic.

The log says that Ironic does not answer, or refuses, under which URL, and when that is over.
It does so at the first failure, before all tries are used up, and then every few minutes.
The sender of a request says what the failure means for its node.

Thread-safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.http import answers, transport
from ironic_virt.baremetal.http.connection import Answer, Channel
from ironic_virt.conf import ironic as ironic_conf
from ironic_virt.logs import OutageTimer

LOG = logging.getLogger(__name__)

SETTLE = 10.0
"""Seconds without a failure after which an answer counts as the end of an outage."""


class ReportingChannel:
    """A :class:`Channel` that logs whether another one reaches Ironic.

    :param place: the URL of Ironic, and the option that it comes from.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self, channel: Channel, place: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._channel = channel
        self._place = place
        self._away = OutageTimer(settle=SETTLE, clock=clock)
        self._refused = OutageTimer(settle=SETTLE, clock=clock)

    def send(self, method: str, path: str, **request: Any) -> Answer:
        """Send a request by the other channel, and log whether Ironic answers."""
        try:
            answer = self._channel.send(method, path, **request)
        except exceptions.IronicUnauthorized as exc:
            self._log_refusal(str(exc))
            raise
        except exceptions.IronicUnreachable as exc:
            # A request with a shorter timeout is tried again soon.
            if request.get("timeout") is None:
                self._log_absence(str(exc))
            raise
        # By the list of nodes the service lives; all else may be forbidden by itself.
        is_refused = answer.status == 403 and (method, path) == ("GET", "/nodes")
        if answer.status == 401 or is_refused:
            self._log_refusal(str(answers.error_of(answer, method=method, path=path)))
        elif answer.status != 429 and answer.status in answers.TRANSIENT_STATUSES:
            self._log_absence(str(answers.error_of(answer, method=method, path=path)))
        elif answer.status != 403:
            self._log_end()
        return answer

    def _log_absence(self, error: str) -> None:
        if (lasted := self._away.failed()) is not None:
            since = f"has not answered for {lasted:.0f} s" if lasted else "does not answer"
            LOG.warning(
                "[ironic-unreachable] Ironic at %s %s. It is asked again. %s",
                *(self._place, since, error),
            )

    def _log_refusal(self, error: str) -> None:
        if (lasted := self._refused.failed()) is not None:
            since = (
                f"has refused this service for {lasted:.0f} s"
                if lasted
                else "refuses this service"
            )
            LOG.error(
                "[ironic-refuses] Ironic at %s %s. See the credentials in [ironic], and the roles "
                "of that user. %s",
                *(self._place, since, error),
            )

    def _log_end(self) -> None:
        lasted = [self._away.worked(), self._refused.worked()]
        seconds = max((each for each in lasted if each is not None), default=None)
        if seconds is not None:
            LOG.info("Ironic at %s answers again, after %.0f s", self._place, seconds)


def describe_url(conf: cfg.ConfigOpts) -> str:
    """The URL of Ironic, and the option that it comes from, for people."""
    group = conf[ironic_conf.GROUP]
    if group.endpoint_override:
        return f"{transport.shown(group.endpoint_override)} ([ironic] endpoint_override)"
    section = group.auth_section or ironic_conf.GROUP
    try:
        keystone = conf[section].auth_url
    except (cfg.NoSuchOptError, cfg.NoSuchGroupError):
        keystone = None
    if not keystone:
        return "the URL of the service catalog"
    return f"the URL of the service catalog of {transport.shown(keystone)} ([{section}] auth_url)"
