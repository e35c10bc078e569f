# SPDX-License-Identifier: Apache-2.0

"""Gives up nodes that were reserved for a server which has no place and is not to get one.

A service may reserve a node before its records say so, when a shelved server comes back; if that
ends early, nobody else gives the node up.  Looked for at each refresh, and given up when it was
so twice in a row.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.http.requests import hurry
from ironic_virt.driver.site import Site
from ironic_virt.virt import Flavor, Instance, InstanceLike

LOG = logging.getLogger(__name__)

LONGEST_LOOK = 10.0
"""Seconds for one look."""


class LeftReservations:
    """Compares reserved nodes with the records; called by one thread at a time.

    :param take_off: takes what carries an instance off its node; ``False``: it is in use.
    """

    def __init__(self, site: Site, take_off: Callable[[InstanceLike], bool]) -> None:
        self._site = site
        self._take_off = take_off
        self._placeless: frozenset[str] = frozenset()

    def look(self) -> None:
        """Look; a failure is put off to the next time."""
        reserved = [
            node.instance_uuid
            for node in self._site.nodes.snapshot().nodes.values()
            if node.instance_uuid and node.provision_state == states.AVAILABLE
        ]
        try:
            placeless = frozenset(self._site.service.placeless(reserved) if reserved else ())
            with hurry(self._site.clock() + LONGEST_LOOK):
                for uuid in sorted(placeless & self._placeless):
                    self._give_up(Instance(uuid, uuid, Flavor("unknown")))
        except Exception as exc:
            LOG.warning("[allocations-not-compared] Reserved nodes were not compared: %s", exc)
            return
        self._placeless = placeless

    def _give_up(self, instance: Instance) -> None:
        try:
            if self._take_off(instance):
                self._site.service.release_place(instance)
                LOG.warning(
                    "[allocation-given-up] The node that was reserved for instance %s is given "
                    "up: it was to come back from being shelved, and that has failed",
                    instance.uuid,
                )
        except exceptions.InstanceNotFound:
            return
