# SPDX-License-Identifier: Apache-2.0

"""Weighers for Nova's scheduler: no large or scarce node for a flavor that asks for less.

In ``nova.conf`` of the scheduler::

    [filter_scheduler]
    weight_classes = nova.scheduler.weights.all_weighers,ironic_virt.nova.weighers.SnugFitWeigher
"""

from __future__ import annotations

from typing import Any

from nova.scheduler import weights

from ironic_virt.nova import sizes
from ironic_virt.request.sizes import of_flavor
from ironic_virt.request.spec import image_properties, required_traits


class SnugFitWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    """The less of a node is left over, the better.

    What is left over is counted in doublings: memory, cores and disk that are all twice
    as much as asked for count 3.  Hosts that are not bare metal all weigh the same.
    """

    def _weigh_object(self, host_state: Any, spec_obj: Any) -> float:
        if not sizes.is_bare_metal(host_state):
            return 0.0
        return -sizes.of_host(host_state).left_over(of_flavor(spec_obj))


class PlainPoolWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    """The fewer traits a pool has that weren't asked for, the better.

    For ``[ironic] node_selection = ironic``.  The driver takes a plain node in any case;
    with this the pool with a GPU isn't counted down for it until the next refresh.  It
    outweighs all others.  Hosts that are not pools all weigh the same.
    """

    def weight_multiplier(self, host_state: Any) -> float:
        """Outweigh all other weighers by default."""
        return 100.0

    def _weigh_object(self, host_state: Any, spec_obj: Any) -> float:
        has = frozenset(((host_state.stats or {}).get(sizes.TRAITS) or "").split(","))
        image = spec_obj.image if spec_obj.obj_attr_is_set("image") else None
        if image is not None and not image.obj_attr_is_set("properties"):
            image = None
        required = required_traits(spec_obj.flavor.extra_specs, image_properties(image))
        return -float(len(has - required - {""}))
