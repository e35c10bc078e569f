# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server adopt``, ``diagnostics show`` and ``console url show``: from Ironic.

No service takes part.  The last two make their own driver, from ``[ironic]`` in the command's
ini file.  It looks for the node in the conductor group and the shard that the server's compute
service has reported, so one file works for the servers of all services, and nothing is written
to the records.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt.cmd import output, server_view
from ironic_virt.cmd.commands import SERVER, Row, argument, flag, one_of, row
from ironic_virt.cmd.output import Words, named

if TYPE_CHECKING:
    from ironic_virt import virt
    from ironic_virt.compute.db.records import Instance
    from ironic_virt.driver import IronicDriver

_STATES = {0: "pending", 1: "running", 3: "paused", 4: "shutdown", 6: "crashed", 7: "suspended"}


class Adopt(output.Lister):
    """Import servers that exist in Ironic but not in the database, as after a restore.

    Each node must be deployed in Ironic, and a compute service must have it in its records,
    without a server. Nothing is changed in Ironic. What Ironic doesn't know is lost: user data,
    key and properties, so a rebuild has none of them.
    """

    examples = "server adopt --flavor gold 8c1d6f2e-93b7-4f0a-b1a5-3d9e7f20c468"
    codes = "0 all were imported; 1 some were not, standard error says why; 2 wrong arguments"
    columns = server_view.LIST_COLUMNS
    takes = (
        argument(
            "--flavor <flavor>", "The flavor that the servers were built with.", required=True
        ),
        argument("nodes <node>", "UUID of a server's node; may be repeated.", nargs="+"),
    )

    def act(self, args: argparse.Namespace) -> list[Instance]:
        from ironic_virt.compute.adoption import adopt

        adopted: list[Instance] = []
        flavor, client = self.db.flavors.get(args.flavor), self.ironic()
        for node in dict.fromkeys(args.nodes):
            with self.failing(f"Node {node}: "):
                adopted.append(adopt(self.db, client, node, flavor))
        return adopted


class _AskIronic(output.ShowOne):
    """A command that shows what Ironic knows about a server."""

    takes: Sequence[Row] = (SERVER,)

    def act(self, args: argparse.Namespace) -> Any:
        from ironic_virt.compute.errors import ConflictingRequest

        instance = self.db.instances.get(args.server)
        if instance.host is None:
            raise ConflictingRequest(instance.uuid, "it is on no node")
        with self._driver_of(instance.host) as driver:
            return self.asked(driver, instance, args)

    def asked(self, driver: IronicDriver, server: Instance, args: argparse.Namespace) -> Any:
        """Ask a driver with the server's group and shard."""
        raise NotImplementedError

    @contextlib.contextmanager
    def _driver_of(self, host: str) -> Iterator[IronicDriver]:
        """A driver with the conductor group and the shard of a compute service."""
        from ironic_virt import conf as options
        from ironic_virt.compute.engine.virtapi import ServiceVirtAPI
        from ironic_virt.driver.loading import load_compute_driver
        from ironic_virt.metrics.prometheus import PrometheusMetrics

        service, conf = self.db.services.get(host), self.conf
        options.register_opts(conf)
        conf.set_override("conductor_group", service.conductor_group, "ironic")
        conf.set_override("shard_key", service.shard_key, "ironic")
        # The lease is the service's affair.
        conf.set_override("standby_backend_url", None, "ironic")
        options.check(conf)
        metrics = PrometheusMetrics(host, service.version)
        driver = load_compute_driver(conf, ServiceVirtAPI(host, self.db, metrics))
        try:
            yield driver
        finally:
            driver.cleanup_host()


def _show_memory(found: virt.InstanceDiagnostics) -> Words:
    words = "unknown" if found.memory_mb is None else f"{found.memory_mb} MiB"
    return Words({"maximum": found.memory_mb}, words)


def _show_uptime(found: virt.InstanceDiagnostics) -> Words | None:
    if found.uptime is None:
        return None
    return Words(found.uptime, str(datetime.timedelta(seconds=found.uptime)))


def _show_nics(found: virt.InstanceDiagnostics) -> Words:
    return Words([{"mac_address": mac} for mac in found.macs], ", ".join(found.macs))


def console_url(address: virt.ConsoleAddress) -> str | None:
    """What to give to a program that opens a console."""
    if address.url is not None or address.kind != "serial":
        return address.url
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"tcp://{host}:{address.port}"


Diagnostics = row(
    _AskIronic,
    """Show what Ironic knows about a running server: its power, and its hardware.

    Ironic doesn't look into a running system, so its usage is not shown.
    """,
    # The fields of Nova's API that Ironic knows.
    columns={
        "config_drive": lambda found: found.config_drive,
        "driver": lambda _found: "ironic",
        "hypervisor": lambda found: found.hypervisor,
        "memory_details": _show_memory,
        "nic_details": _show_nics,
        "num_cpus": lambda found: found.cpus or None,
        "num_nics": lambda found: len(found.macs),
        "state": lambda found: _STATES.get(int(found.state), str(int(found.state))),
        "uptime": _show_uptime,
    },
    asked=lambda command, driver, server, args: driver.get_instance_diagnostics(server),
    examples="server diagnostics show web\nserver diagnostics show web -f value -c uptime",
    codes="0 shown; 1 unknown to Ironic, or Ironic could not be asked; 2 wrong arguments",
)
ConsoleUrl = row(
    _AskIronic,
    """Switch a server's console on, and show its address.

    A serial console is a plain TCP stream for one client at a time: this command disconnects
    the previous client. Several clients can open a VNC console; its URL is Ironic's own page.
    """,
    one_of(
        flag("--serial", "The serial console (default)."), flag("--vnc", "The graphical console.")
    ),
    columns={**named("type=kind", "url", "host", "port", "path"), "url": console_url},
    asked=lambda command, driver, server, args: (
        driver.get_vnc_console if args.vnc else driver.get_serial_console
    )(server),
    examples="server console url show web\nserver console url show --vnc web -f value -c url",
    codes="0 the console is on; 1 there is none, or Ironic could not be asked; 2 wrong arguments",
)
