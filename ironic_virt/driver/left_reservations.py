# SPDX-License-Identifier: Apache-2.0

"""Gives up nodes that were reserved for a server which has no place and is not to get one.

A service may reserve a node before its records say so, when a shelved server comes back; if that
fails early, nothing else releases the node.  It is released when two refreshes in a row see it.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt.baremetal import states
from ironic_virt.baremetal.http.requests import hurry_requests
from ironic_virt.driver.site import LONGEST_LOOK, Site

LOG = logging.getLogger(__name__)


class LeftReservations:
    """Compares reserved nodes with the records; called by one thread at a time.

    :param take_off: see :meth:`.Release.take_off`.
    """

    def __init__(self, site: Site, take_off: Callable[[str], bool]) -> None:
        self._site, self._take_off = site, take_off
        self._placeless_before: frozenset[str] = frozenset()

    def look(self) -> None:
        """Look; a failure is put off to the next time."""
        nodes, _ = self._site.nodes.ours()
        reserved = [node for node in nodes if node.provision_state == states.AVAILABLE]
        uuids = [node.instance_uuid for node in reserved if node.instance_uuid]
        service = self._site.service
        try:
            placeless = frozenset(service.placeless(uuids) if uuids else ())
            with hurry_requests(self._site.clock() + LONGEST_LOOK):
                for uuid in sorted(placeless & self._placeless_before):
                    # The ones before may have taken long.
                    if not service.placeless([uuid]):
                        continue
                    # First: what fails is tried again only while the node is reserved.
                    service.release_place(uuid)
                    if self._take_off(uuid):
                        LOG.warning(
                            "[allocation-given-up] The node reserved for %s is given up", uuid
                        )
            self._placeless_before = placeless
        except Exception as exc:
            LOG.warning("[allocations-not-compared] Reserved nodes were not compared: %s", exc)
