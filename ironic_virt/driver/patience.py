# SPDX-License-Identifier: Apache-2.0

"""Looking at the node of an instance until Ironic answers.

For what another process has begun, or an error has disturbed: nothing is concluded from it that
a node could not be read.
"""

from __future__ import annotations

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.driver.held import Held
from ironic_virt.driver.site import Site
from ironic_virt.virt import InstanceLike

LOG = logging.getLogger(__name__)

_LEAST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_GROWTH = 1.5


class Patience:
    """The pauses between looks at what can't be seen, each longer than the one before.

    :param gives_up: when it is over; else nothing but an answer ends it.
    """

    def __init__(self, site: Site, instance: InstanceLike, *, gives_up: bool) -> None:
        self.gives_up = gives_up
        self._site = site
        self._instance = instance
        self._seconds = max(float(site.conf.ironic.api_retry_interval), _LEAST_PAUSE)
        self._since: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether there has been trouble for longer than ``[ironic] deploy_timeout``."""
        limit, since = self._site.conf.ironic.deploy_timeout, self._since
        return bool(limit) and since is not None and self._site.clock() >= since + limit

    def begin(self, *, again: bool = False) -> None:
        """Count from now, if it is not counted already or to begin again."""
        if again or self._since is None:
            self._since = self._site.clock()

    def pause(self, error: Exception) -> None:
        """Wait a little, but not at the first trouble.

        :raises WaitCancelled: the service stops.
        :raises BuildAborted: the instance is not wanted any more.
        """
        if self._since is None:
            return
        if self._site.pause(self._seconds):
            raise exceptions.WaitCancelled(None, self._instance.uuid, "it stops") from error
        if reason := self._site.service.abort_reason(self._instance):
            raise exceptions.BuildAborted(None, self._instance.uuid, reason) from error
        self._seconds = min(self._seconds * _GROWTH, _LONGEST_PAUSE)

    def look(self) -> Held:
        """The node that carries the instance, as soon as Ironic answers.

        :raises InstanceNotFound: no node does.
        :raises NodeNotOurs: it is outside the target set.
        :raises WaitCancelled: the service stops, or it is over.
        :raises BuildAborted: the instance is not wanted any more.
        """
        is_silent = False
        while True:
            try:
                held = Held.of(self._site, self._instance)
            except exceptions.IronicError as exc:
                LOG.warning("[node-unread] Can't read %s's node: %s", self._instance.uuid, exc)
                is_silent = True
                self.begin()
                if self.gives_up and self.is_over:
                    raise exceptions.WaitCancelled(
                        None,
                        self._instance.uuid,
                        f"its node can't be read, and is left alone: {exc}",
                    ) from exc
                self.pause(exc)
            else:
                if is_silent:
                    # That is over: what comes now is something else.
                    self.begin(again=True)
                return held
