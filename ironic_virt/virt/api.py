# SPDX-License-Identifier: Apache-2.0

"""What a driver asks of the compute service that loaded it."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Collection, Mapping, Sequence

from ironic_virt.virt.values import (
    ConfigDrive,
    DeployRequest,
    ImageLike,
    InstanceLike,
    NetworkInfo,
)


class VirtAPI(abc.ABC):
    """What a driver asks of the compute service that loaded it.

    Called from any thread.

    :cvar move_command: what an operator types to give a node's record to another
        host, with ``{node}`` and ``{host}`` in it; for messages.
    """

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
        """The uuids of the instances that the records give to this host."""

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The hosts that the records give nodes to, by the node's uuid.

        A node that another host has is left alone.  Asked at each refresh.

        :param uuids: of the nodes asked about.
        :returns: one without a record is left out.
        """
        return {}

    def instance_places(self) -> Mapping[str, str]:
        """Where the records put this host's instances: uuid to the compute node's name.

        Asked at each refresh if Ironic picks the nodes.

        :returns: ``""`` for one whose record names no compute node.
        """
        return dict.fromkeys(self.owned_instance_uuids(), "")

    def instance_hosts(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The hosts that the records give instances to, by the instance's uuid.

        :returns: one that is not known, or has no host, is left out.
        """
        mine = set(self.owned_instance_uuids())
        return {uuid: self.host for uuid in uuids if uuid in mine}

    def sharing_hosts(self) -> Collection[str]:
        """The hosts that are up and have pools of the same nodes: what is free is shared.

        All that are up, unless the service knows better.
        """
        return self.live_hosts()

    def tried_nodes(self, instance: InstanceLike) -> Collection[str]:
        """The uuids of the nodes that an instance was given up on; Ironic picks others."""
        return ()

    def existing_instances(self, uuids: Collection[str]) -> Collection[str]:
        """Which of these instances the records have, of whichever host; not deleted ones.

        What is reserved for one that they don't have is given up, so doubt is an error.
        """
        return set(self.owned_instance_uuids()).intersection(uuids)

    def image_of(self, instance: InstanceLike) -> ImageLike | None:
        """The image that an instance is to be deployed from, asked before it is spawned.

        :returns: ``None``: not known; what it requires is then seen only by ``spawn``.
        """
        return None

    @abc.abstractmethod
    def abort_reason(self, instance: InstanceLike) -> str | None:
        """Why a running build is no longer wanted; ``None`` while it is.

        Asked again and again while a deployment is waited for: be quick.

        :raises WaitCancelled: the instance is not this host's any more: the build
            is left as it is, and nothing is undone.
        """

    def waiting(self, instance_uuid: str | None) -> contextlib.AbstractContextManager[None]:
        """Be told that a thread does nothing but wait for Ironic while the block runs.

        :param instance_uuid: of the instance that it waits for.
        """
        return contextlib.nullcontext()

    def config_drive(self, request: DeployRequest) -> ConfigDrive | None:
        """The contents of the instance's config drive; ``None``: none is wanted."""
        return None

    def instance_metadata(self, instance: InstanceLike) -> Mapping[str, str]:
        """What the instance's user has set on it, by name; asked only if there are hooks."""
        return {}

    def deploy_metadata(
        self, instance: InstanceLike, network_info: NetworkInfo
    ) -> Mapping[str, str]:
        """More to write into the node's ``instance_info`` for operators' tools.

        Nova's keys are ``project_name``, ``user_name``, ``fixed_ips`` and
        ``floating_ips``.
        """
        return {}

    def fixed_addresses(self, instance: InstanceLike) -> Mapping[str, Sequence[str]]:
        """The fixed IP addresses of an instance's VIFs by VIF, as far as they are known."""
        return {}

    def instance_names(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The names of instances by uuid; one that is not known is left out."""
        return {}

    def report_progress(self, instance: InstanceLike, step: str, detail: str = "") -> None:  # noqa: B027
        """Be told that a long action has reached a step.

        :param step: ``reserving``, ``configuring``, ``validating``,
            ``deploying``, ``active``, ``tearing down``, ``released``, ...
        :param detail: Ironic's provision state, where there is one.
        """

    def report_request(self, method: str, status: int | None, seconds: float) -> None:  # noqa: B027
        """Be told of a request that the driver sent to the API that it drives.

        :param status: the answer's HTTP status; ``None`` if there was no answer.
        """
