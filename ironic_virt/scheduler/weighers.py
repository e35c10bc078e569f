# SPDX-License-Identifier: Apache-2.0

"""Weighers: each is a row that says how good a host is for a request.

An entry point in ``ironic_virt.scheduler.weighers`` names a function that makes a
:class:`Weigher` from the options, and ``[scheduler] enabled_weighers`` enables it by the entry
point's name.  The host with the largest sum of weights wins, each weigher's weights being
brought to 0..1 among the hosts that are compared and multiplied by its multiplier.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from oslo_config import cfg

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.host_state import HostState

NAMESPACE = "ironic_virt.scheduler.weighers"


@dataclasses.dataclass(frozen=True, slots=True)
class Weigher:
    """Says how good a host is for a request.

    :param weigh: the host's weight, in any unit: the more, the better.
    :param multiplier: how much it counts where ``[scheduler] weight_multipliers`` says
        nothing.
    :param uses_instance_counts: it depends on ``HostState.host`` and ``num_instances`` alone.
    """

    weigh: Callable[[HostState, RequestSpec], float]
    multiplier: float = 1.0
    uses_instance_counts: bool = False


def instance_count(_conf: cfg.ConfigOpts) -> Weigher:
    """The fewer instances a compute service has, the better.

    With a negative multiplier, one service is filled before the next.
    """
    return Weigher(lambda host, _spec: -host.num_instances, uses_instance_counts=True)


def snug_fit(_conf: cfg.ConfigOpts) -> Weigher:
    """The less of a host is left over, the better.

    What is left over is counted in doublings of what is asked for.  A trait that isn't asked
    for, as that of a GPU, counts 1.

    Counts twice as much as a weigher usually does: a large node isn't spent to spread
    instances over compute services.
    """

    def weigh(host: HostState, spec: RequestSpec) -> float:
        others = sum(trait not in spec.required_traits for trait in host.traits)
        return -(host.free.left_over(spec.sizes) + others)

    return Weigher(weigh, multiplier=2.0)


def normalized(weights: Sequence[float]) -> list[float]:
    """Weights brought to 0..1; all 0 if they are all the same."""
    bottom, top = min(weights, default=0.0), max(weights, default=0.0)
    span = top - bottom
    return [(weight - bottom) / span if span else 0.0 for weight in weights]
