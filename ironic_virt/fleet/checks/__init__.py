# SPDX-License-Identifier: Apache-2.0

"""The doctor's checks, a module for each kind of object.

Importing this registers them all, so the registry is read by way of it: :func:`kinds` and
:func:`run`.
"""

from ironic_virt.fleet.checks import nodes, offers, providers, servers, services
from ironic_virt.fleet.findings import kinds, run

__all__ = ["kinds", "nodes", "offers", "providers", "run", "servers", "services"]
