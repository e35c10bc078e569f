# SPDX-License-Identifier: Apache-2.0

"""The two sides of ``listing``; each runs in its own process.

A side imports what it needs when it is made, so that the other's modules are
not in its process.
"""

from __future__ import annotations

import abc
import contextlib
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks import measure


class Lister(abc.ABC):
    """Lists all nodes of the Ironic at a URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connect()
        self.touch()

    @abc.abstractmethod
    def connect(self) -> None:
        """Make what a service makes once."""

    @abc.abstractmethod
    def touch(self) -> None:
        """Read one node, so that what is made at the first request has been made."""

    @abc.abstractmethod
    def list_nodes(self) -> list[Any]:
        """All nodes, with the fields of Nova's in-tree driver."""

    @abc.abstractmethod
    def describe(self, node: Any) -> tuple[Any, ...]:
        """The node's uuid, instance, states, resource class, memory and traits."""

    def content(self) -> dict[str, Any]:
        """What was listed, in a form in which the sides can be compared."""
        described = sorted(self.describe(node) for node in self.list_nodes())
        return {"nodes": len(described), "digest": measure.digest(described)}

    def times(self) -> dict[str, float]:
        """Processor and wall time of one list."""
        return measure.times(self.list_nodes)

    def memory(self) -> dict[str, float]:
        """Bytes of one list: by the growth of the process, then by tracing."""
        resident = measure.resident(self.list_nodes)
        self.connect()
        self.touch()
        return {"memory": measure.traced(self.list_nodes), "resident": resident}

    @contextlib.contextmanager
    def ini_file(self) -> Iterator[str]:
        """The options of either side, as an operator writes them."""
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "service.conf")
            path.write_text(f"[ironic]\nauth_type = none\nendpoint_override = {self.url}\n")
            yield str(path)


# Of nova.virt.ironic.driver; that the other side really uses them is checked there.
NODE_FIELDS = (
    "uuid",
    "power_state",
    "target_power_state",
    "provision_state",
    "target_provision_state",
    "last_error",
    "maintenance",
    "properties",
    "instance_uuid",
    "traits",
    "resource_class",
)


class Ours(Lister):
    """ironic_virt's client."""

    def connect(self) -> None:
        """Make a client by the options."""
        from ironic_virt import conf
        from ironic_virt.baremetal.client import IronicClient

        with self.ini_file() as path:
            self.client = IronicClient.from_conf(conf.load([path]))

    def touch(self) -> None:
        from ironic_virt.baremetal.node_filter import NodeFilter

        self.client.lists.last_created(NodeFilter(), 1)

    def list_nodes(self) -> list[Any]:
        return self.client.list_nodes(fields=NODE_FIELDS)

    def describe(self, node: Any) -> tuple[Any, ...]:
        return (
            node.uuid,
            node.instance_uuid or "",
            node.provision_state,
            node.power_state,
            node.resource_class,
            node.properties.memory_mb,
            sorted(node.traits),
        )


class InTree(Lister):
    """Nova's in-tree driver."""

    def connect(self) -> None:
        """Make Nova's driver, which makes its connection when first asked."""
        from keystoneauth1 import loading
        from nova import conf
        from nova.virt.ironic import driver

        if driver._NODE_FIELDS != NODE_FIELDS:
            raise AssertionError(f"Nova lists other fields: {driver._NODE_FIELDS}")
        conf.CONF.register_opts(loading.get_auth_plugin_conf_options("none"), group="ironic")
        with self.ini_file() as path:
            conf.CONF(["--config-file", path], project="nova")
            self.driver = driver.IronicDriver(None)
            self.driver.ironic_connection  # noqa: B018 - made now, while the options are there

    def touch(self) -> None:
        next(self.driver.ironic_connection.nodes(fields=NODE_FIELDS, limit=1))

    def list_nodes(self) -> list[Any]:
        nodes: list[Any] = self.driver._get_node_list(fields=NODE_FIELDS)
        return nodes

    def describe(self, node: Any) -> tuple[Any, ...]:
        return (
            node.id,
            node.instance_id or "",
            node.provision_state,
            node.power_state,
            node.resource_class,
            node.properties["memory_mb"],
            sorted(node.traits),
        )
