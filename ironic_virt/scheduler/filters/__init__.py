# SPDX-License-Identifier: Apache-2.0

"""What a filter is.

A filter is a class that an entry point in ``ironic_virt.scheduler.filters`` names
and ``[scheduler] enabled_filters`` enables by the entry point's name.  One object
of it serves all requests, from any thread.
"""

from __future__ import annotations

import abc
from typing import ClassVar

from oslo_config import cfg

from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler.candidates import CandidateQuery
from ironic_virt.scheduler.host_state import HostState

NAMESPACE = "ironic_virt.scheduler.filters"


class BaseHostFilter(abc.ABC):
    """Says of one host state at a time whether a request may have it.

    :cvar run_on_rebuild: run it also when an instance is rebuilt on its node.
    :cvar uses_instance_counts: it reads ``HostState.num_instances``.
    """

    run_on_rebuild: ClassVar[bool] = False
    uses_instance_counts: ClassVar[bool] = False

    def __init__(self, conf: cfg.ConfigOpts) -> None:  # noqa: B027
        """Read what options there are, once."""

    @abc.abstractmethod
    def why_not(self, host: HostState, spec: RequestSpec) -> str | None:
        """Why the request can't have this host, in one line; ``None`` if it can.

        Changes nothing.
        """

    def host_passes(self, host: HostState, spec: RequestSpec) -> bool:
        """Whether the request can have this host, as far as this filter goes."""
        return (spec.is_rebuild and not self.run_on_rebuild) or self.why_not(host, spec) is None

    def narrow(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery:
        """What an index may leave out because this filter would reject it anyway.

        :param query: what other filters have asked for already.
        :returns: the same or a narrower one.
        """
        return query

    def suspects(self, query: CandidateQuery, spec: RequestSpec) -> CandidateQuery | None:
        """What :meth:`narrow` leaves out and an operator should be warned of.

        Looked at when a request has found no host, so that :meth:`why_not` may warn.
        """
        return None

    def wish(self, spec: RequestSpec) -> str:
        """What the filter wants for this request, in a few words."""
        return ""
