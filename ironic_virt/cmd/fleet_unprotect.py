# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet unprotect``: let other drivers delete what this one protects."""

from __future__ import annotations

import argparse
from typing import Any

from ironic_virt.baremetal.client import IronicClient
from ironic_virt.cmd import output
from ironic_virt.cmd.fleet import HOSTS_TO_CHANGE, FleetCommand
from ironic_virt.fleet.unprotection import unprotect_nodes

_COLUMNS = output.in_order("Host", "Node", "Server", "Outcome", "Reason")


class Unprotect(FleetCommand):
    """Take off the protection of nodes that [ironic] protect_instances has put on.

    It is for a service that goes back to Nova's own driver, or to a former release of this
    one: neither can delete or rebuild a server whose node is protected. Unset the option first,
    or stop the service; it protects what it builds and rebuilds. What somebody else protects is
    left alone. A run that was cut off is just started again.

      ironic-virt-fleet unprotect compute-a --dry-run
      ironic-virt-fleet unprotect compute-a compute-b
    """

    columns = _COLUMNS
    takes = HOSTS_TO_CHANGE

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Take it off the nodes of each service."""
        reader = self.reader(parsed_args)
        deployment = reader.read(placement=False)
        for host in parsed_args.hosts:
            if host not in deployment.service_of:
                self.refuse(f"there is no nova-compute service of host {host}")
        client, dry_run = IronicClient.from_conf(reader.conf), parsed_args.dry_run
        run = unprotect_nodes(deployment, parsed_args.hosts, client, dry_run=dry_run)
        reports = self.collected(run, lambda node: "protected nodes")
        rows = [
            (deployment.host_of(node), node.uuid, node.instance_uuid, outcome.value, reason)
            for node, outcome, reason in reports
        ]
        return output.table(_COLUMNS, rows)
