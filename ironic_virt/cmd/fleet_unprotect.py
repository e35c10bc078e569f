# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-fleet unprotect``: let other drivers delete what this one protects."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from ironic_virt.baremetal.client import IronicClient
from ironic_virt.cmd import output
from ironic_virt.cmd.fleet import HOSTS_TO_CHANGE, FleetCommand
from ironic_virt.fleet.unprotection import unprotect_nodes


class Unprotect(FleetCommand):
    """Remove the protection that [ironic] protect_instances has put on nodes.

    Use it before a service goes back to Nova's own driver, or to an older release of this one:
    neither can delete or rebuild a server whose node is protected. First unset the option or
    stop the service, which protects what it builds and rebuilds. Nodes that somebody else
    protects are left alone. After an interruption, just run the command again.

      ironic-virt-fleet unprotect compute-a --dry-run
      ironic-virt-fleet unprotect compute-a compute-b
    """

    columns = output.in_order("Host", "Node", "Name", "Server", "Outcome", "Reason")
    takes = HOSTS_TO_CHANGE

    def act(self, args: argparse.Namespace) -> Any:
        reader = self.reader(args)
        from ironic_virt.fleet import lock

        with contextlib.nullcontext() if args.dry_run else lock.held() as check:
            deployment = reader.read(placement=False)
            for host in args.hosts:
                if host not in deployment.service_of:
                    self.refuse(f"host {host} has no nova-compute service")
            client = IronicClient.from_conf(reader.conf)
            run = unprotect_nodes(deployment, args.hosts, client, check)
            reports = self.collected(run, lambda node: "protected nodes")
        host_of = deployment.host_of
        return [
            (host_of(node), node.uuid, node.name, node.instance_uuid, outcome.value, reason)
            for node, outcome, reason in reports
        ]
