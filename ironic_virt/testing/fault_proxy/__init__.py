# SPDX-License-Identifier: Apache-2.0

"""A proxy in front of a fake or real Ironic that injects the failures that a test wants.

::

    with FaultProxy(ironic_url) as proxy:
        rule = proxy.add(ResetAfter(), "PATCH", "/v1/nodes/", times=1)
        ...  # a client of proxy.url
        assert rule.hits == 1
        assert [entry.fault for entry in proxy.requests] == ["reset-after", None]

A fault says what happens to a request, a rule which requests it happens to.
"""

from ironic_virt.testing.fault_proxy.contents import Body, Edit, Malform, MaxVersion, Omit
from ironic_virt.testing.fault_proxy.exchange import Reply, Request
from ironic_virt.testing.fault_proxy.faults import (
    Delay,
    Drip,
    Fault,
    Hang,
    Redirect,
    ResetAfter,
    ResetBefore,
    Status,
    Truncate,
)
from ironic_virt.testing.fault_proxy.proxy import FaultProxy
from ironic_virt.testing.fault_proxy.rules import Rule, Rules

__all__ = [
    "Body",
    "Delay",
    "Drip",
    "Edit",
    "Fault",
    "FaultProxy",
    "Hang",
    "Malform",
    "MaxVersion",
    "Omit",
    "Redirect",
    "Reply",
    "Request",
    "ResetAfter",
    "ResetBefore",
    "Rule",
    "Rules",
    "Status",
    "Truncate",
]
