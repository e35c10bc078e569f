# SPDX-License-Identifier: Apache-2.0

"""What the commands share that ask Ironic about a server: a driver of their own.

The driver is made from the command's own ini file, whose ``[ironic]`` says how to reach
Ironic.  It looks for the node in the conductor group and the shard that the server's compute
service has reported, so one file serves for the servers of all services.  No service takes
part, and nothing is written into the records.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ironic_virt.cmd import output
from ironic_virt.cmd.commands import SERVER, Row

if TYPE_CHECKING:
    from oslo_config import cfg

    from ironic_virt.baremetal.client import IronicClient
    from ironic_virt.compute.db import Database
    from ironic_virt.compute.db.records import Instance
    from ironic_virt.driver import IronicDriver


class AskIronic(output.ShowOne):
    """A command that shows what Ironic says of a server."""

    takes: Sequence[Row] = (SERVER,)

    @contextlib.contextmanager
    def instance(self, parsed_args: argparse.Namespace) -> Iterator[tuple[IronicDriver, Instance]]:
        """The server's record, and a driver to ask about it.

        :raises NoSuchInstance, AmbiguousName: no server, or several, have this name.
        :raises ConflictingRequest: the server is on no node.
        :raises InvalidConfiguration: the file doesn't say how to reach Ironic.
        """
        with self.configured(parsed_args) as (conf, database):
            from ironic_virt.compute.errors import ConflictingRequest

            instance = database.instances.get(parsed_args.server)
            if instance.host is None:
                raise ConflictingRequest(instance.uuid, "it is on no node")
            with driver_of(conf, database, instance.host) as driver:
                yield driver, instance


@contextlib.contextmanager
def driver_of(conf: cfg.ConfigOpts, database: Database, host: str) -> Iterator[IronicDriver]:
    """A driver with the conductor group and the shard of a compute service.

    :param conf: read from files; the options of ``[ironic]`` are registered here.
    """
    from ironic_virt import conf as options
    from ironic_virt.compute.engine.in_flight import InFlight
    from ironic_virt.compute.engine.metrics import Metrics
    from ironic_virt.compute.engine.virtapi import ServiceVirtAPI
    from ironic_virt.driver.loading import load_compute_driver

    service = database.services.get(host)
    options.register_opts(conf)
    conf.set_override("conductor_group", service.conductor_group, "ironic")
    conf.set_override("shard_key", service.shard_key, "ironic")
    # The lease is the service's affair.
    conf.set_override("standby_backend_url", None, "ironic")
    options.check(conf)
    metrics = Metrics(host, service.version)
    driver = load_compute_driver(conf, ServiceVirtAPI(host, database, InFlight(0), metrics))
    try:
        yield driver
    finally:
        driver.cleanup_host()


def ironic(conf: cfg.ConfigOpts) -> IronicClient:
    """The Ironic of the options; those of ``[ironic]`` are registered here."""
    from ironic_virt import conf as options
    from ironic_virt.baremetal.client import IronicClient

    options.register_opts(conf)
    options.check(conf)
    return IronicClient.from_conf(conf)
