# SPDX-License-Identifier: Apache-2.0

"""What a driver asks of the compute service that loaded it."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence

from ironic_virt.virt.metrics import Metrics
from ironic_virt.virt.values import (
    ConfigDrive,
    DeployRequest,
    ImageLike,
    InstanceLike,
    NetworkInfo,
    ServerGroup,
)


class VirtAPI(abc.ABC):
    """What a driver asks of the compute service that loaded it.

    Any thread may call any method.

    :cvar move_command: the command that gives a node's record to another host, with ``{node}``
        and ``{host}`` in it; for messages.
    :ivar metrics: counts the driver's work; set before the driver is made.
    """

    metrics = Metrics()

    move_command = "ironic-virt-manage ironic-compute-node-move {node} --service {host}"

    @property
    @abc.abstractmethod
    def host(self) -> str:
        """This compute service's host name."""

    @abc.abstractmethod
    def live_hosts(self) -> Collection[str]:
        """The host names of the compute services that are up, this one included."""

    @abc.abstractmethod
    def owned_instance_uuids(self) -> Collection[str]:
        """The uuids of the instances that belong to this host by the service's records."""

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        """Return the hosts that have the records of nodes, by the node's uuid.

        The driver leaves a node alone whose record another host has.  Called at each refresh.

        :param uuids: of nodes.
        :returns: without the nodes that have no record.
        """
        return {}

    def instance_places(self) -> Mapping[str, str]:
        """Return the compute nodes of this host's instances, by the instance's uuid.

        Called at each refresh if the driver picks the nodes.

        :returns: ``""`` for an instance whose record names no compute node.
        """
        return dict.fromkeys(self.owned_instance_uuids(), "")

    def instance_hosts(self, uuids: Collection[str]) -> Mapping[str, str]:
        """Return the hosts of instances, by the instance's uuid.

        :returns: without those that are not known or have no host.
        """
        mine = set(self.owned_instance_uuids())
        return {uuid: self.host for uuid in uuids if uuid in mine}

    def tried_nodes(self, instance: InstanceLike) -> Collection[str]:
        """The uuids of the nodes on which the instance could not be deployed before."""
        return ()

    def existing_instances(self, uuids: Collection[str]) -> Collection[str]:
        """Return which of these instances exist, of any host; without deleted ones.

        The driver gives up what is reserved for the others, so a service that is not
        certain raises an error.
        """
        return set(self.owned_instance_uuids()).intersection(uuids)

    def deleted_instances(self, uuids: Collection[str]) -> Collection[str]:
        """Return which of these instances are certainly deleted; others may be another service's.

        What runs for one of them is torn down.
        """
        return set(uuids).difference(self.existing_instances(uuids))

    def group_of(self, instance: InstanceLike) -> ServerGroup | None:
        """Return the server group of an instance that is about to get a node."""
        return None

    def domains_of(self, instance: InstanceLike) -> Collection[str] | None:
        """Return those that were asked for, ``None``: any; called if Ironic picks the node."""
        return None

    def note_domain(self, instance: InstanceLike, domain: str | None) -> None:  # noqa: B027 (optional)
        """Write down the failure domain of a member, for :meth:`group_of`; ``None``: none."""

    def placeless(self, uuids: Collection[str]) -> Collection[str]:
        """Return which of these instances have no node by the records and are not to get one."""
        return ()

    def release_place(self, uuid: str) -> None:  # noqa: B027 (optional)
        """Called when a node is given up that was reserved for one of :meth:`placeless`."""

    def image_of(self, instance: InstanceLike) -> ImageLike | None:
        """Return the image of an instance that is about to be deployed.

        :returns: ``None``: not known; ``spawn`` then sees what it requires.
        """
        return None

    @abc.abstractmethod
    def abort_reason(self, instance: InstanceLike) -> str | None:
        """Return why a build is not wanted any more; ``None``: it still is.

        Called often while a deployment runs, so it must be quick.

        :raises WaitCancelled: the instance does not belong to this host any more: the build
            is left as it is, and nothing is undone.
        """

    def waiting(self, instance_uuid: str | None) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the calling thread only waits for Ironic.

        :param instance_uuid: of the instance that it waits for.
        """
        return contextlib.nullcontext()

    def config_drive(self, request: DeployRequest) -> ConfigDrive | None:
        """Return the contents of the instance's config drive; ``None``: it has none."""
        return None

    def instance_metadata(self, instance: InstanceLike) -> Mapping[str, str]:
        """Return the metadata that the instance's user has set; only called if there are hooks."""
        return {}

    def deploy_metadata(
        self, instance: InstanceLike, network_info: NetworkInfo
    ) -> Mapping[str, str]:
        """Return more keys for the node's ``instance_info``, which operators' tools read.

        Nova's keys are ``project_name``, ``user_name``, ``fixed_ips`` and
        ``floating_ips``.
        """
        return {}

    def fixed_addresses(self, instance: InstanceLike) -> Mapping[str, Sequence[str]]:
        """Return the known fixed IP addresses of an instance's VIFs, by VIF."""
        return {}

    def report_progress(self, instance: InstanceLike, step: str, detail: str = "") -> None:  # noqa: B027 (optional)
        """Called when a long action has reached a step.

        :param step: ``reserving``, ``configuring``, ``validating``,
            ``deploying``, ``active``, ``tearing down``, ``released``, ...
        :param detail: Ironic's provision state, where there is one.
        """

    def needs(self) -> Mapping[str, Callable[[], object]]:
        """Return what this service needs besides Ironic, by name, for a standby.

        :returns: for each a look at it, which raises within seconds if it can't be reached.
            Called in a native thread.
        """
        return {}

    def standing_by(self) -> None:  # noqa: B027 (optional)
        """Called about once a second while another process of this host name is active."""
