# SPDX-License-Identifier: Apache-2.0

"""What a weigher is.

A weigher is a class that an entry point in ``ironic_virt.scheduler.weighers`` names
and ``[scheduler] enabled_weighers`` enables by the entry point's name.  The host
with the largest sum of weights wins, each weigher's weights being brought to 0..1
among the hosts that are compared and multiplied by its multiplier.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar

from oslo_config import cfg

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.host_state import HostState

NAMESPACE = "ironic_virt.scheduler.weighers"


class BaseWeigher(abc.ABC):
    """Says how good a host is for a request: the more, the better.

    :cvar multiplier: how much it counts where ``[scheduler] weight_multipliers`` says
        nothing.
    :cvar least: the weight that becomes 0; ``None``: the least one found.
    :cvar most: the weight that becomes 1; ``None``: the greatest one found.
    :cvar uses_instance_counts: it reads ``HostState.num_instances``.
    """

    multiplier: ClassVar[float] = 1.0
    least: ClassVar[float | None] = None
    most: ClassVar[float | None] = None
    uses_instance_counts: ClassVar[bool] = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Read what options there are, once."""

    @abc.abstractmethod
    def weigh(self, host: HostState, spec: RequestSpec) -> float:
        """The host's weight, in whatever unit; changes nothing."""


def normalized(
    weights: Sequence[float], least: float | None = None, most: float | None = None
) -> list[float]:
    """Weights brought to 0..1; all 0 if they are all the same.

    :param least: what becomes 0, and ``most`` what becomes 1; weights beyond are cut
        off.  ``None``: the least and the greatest of the weights.
    """
    if not weights:
        return []
    bottom = min(weights) if least is None else least
    top = max(weights) if most is None else most
    if top <= bottom:
        return [0.0] * len(weights)
    return [(min(max(weight, bottom), top) - bottom) / (top - bottom) for weight in weights]
