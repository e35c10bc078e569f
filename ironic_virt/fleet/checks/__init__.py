# SPDX-License-Identifier: Apache-2.0

"""The doctor's checks, a module for each kind of object; importing this registers them all."""

from ironic_virt.fleet.checks import nodes, offers, providers, servers, services

__all__ = ["nodes", "offers", "providers", "servers", "services"]
