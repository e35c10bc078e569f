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
    :param node: the uuid of the instance's node, if that is known.
    """

    def __init__(
        self, site: Site, instance: InstanceLike, *, gives_up: bool, node: str | None = None
    ) -> None:
        self._gives_up = gives_up
        self._site = site
        self._instance = instance
        # If Ironic picks the nodes, the record may name a pool.
        self._node = node or (None if site.by_ironic else instance.node)
        self._seconds = max(float(site.conf.ironic.api_retry_interval), _LEAST_PAUSE)
        self._since: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether there has been trouble for longer than ``[ironic] deploy_timeout``."""
        limit, since = self._site.conf.ironic.deploy_timeout, self._since
        return bool(limit) and since is not None and self._site.clock() >= since + limit

    def begin(self) -> None:
        """Count from now, if it is not counted already."""
        if self._since is None:
            self._since = self._site.clock()

    def pause(self, error: Exception) -> None:
        """Wait a little, but not at the first trouble.

        :raises WaitCancelled: the service stops.
        :raises BuildAborted: the instance is not wanted any more.
        """
        if self._since is None:
            return
        if self._site.pause(self._seconds):
            raise self._error(exceptions.WaitCancelled, "the service stops") from error
        if reason := self._site.service.abort_reason(self._instance):
            raise self._error(exceptions.BuildAborted, reason) from error
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
                if self._gives_up and self.is_over:
                    reason = f"it can't be read, and is left alone: {exc}"
                    raise self._error(exceptions.WaitCancelled, reason) from exc
                self.pause(exc)
            else:
                if is_silent:
                    # That is over: what comes now is something else.
                    self._since = self._site.clock()
                self._node = held.uuid
                return held

    def _error(self, kind: type[exceptions.NodeError], reason: str) -> exceptions.NodeError:
        return kind(self._node, self._instance.uuid, reason)
