# SPDX-License-Identifier: Apache-2.0

"""What the driver asks of nova-compute, answered from Nova's records.

Called from any thread.  Every question is a separate request with an admin's context.  Of the
answers, only the nodes for which the resource tracker was trusted instead are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from typing import Any

from nova import context as nova_context
from nova import exception, objects, servicegroup
from nova.compute import task_states, vm_states
from nova.compute import utils as compute_utils
from nova.virt import configdrive
from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions, virt
from ironic_virt.driver.resources import HYPERVISOR_TYPE
from ironic_virt.nova import broker, config_drive, observer, sizes, values, warm
from ironic_virt.nova.errors import Doing, NotDeployed, translated

LOG = logging.getLogger(__name__)

_EVENTS = {
    Doing.ATTACH_INTERFACE: "compute_ironic_attach_interface",
    Doing.DETACH_INTERFACE: "compute_ironic_detach_interface",
}
_DEPLOY_EVENT = "compute_ironic_deploy"
_OF_SERVERS_IN_ERROR_TOO = (
    task_states.REBUILD_SPAWNING,
    task_states.RESCUING,
    task_states.UNRESCUING,
)

_WITHOUT_REASON = (
    *(exception.ComputeResourcesUnavailable, NotDeployed),
    *(exception.VirtualInterfacePlugException, exception.VirtualInterfaceUnplugException),
)
"""Errors whose text Nova does not show."""
_NO_DATABASE = "CantStartEngineError"
_MOST = 500
"""Records in one answer; that is about 1 MB."""
_FEW = 100
"""Of so many nodes the records are asked each time."""


class NovaVirtAPI(virt.VirtAPI):
    """The service's side of the contract.

    :param conf: Nova's.
    :param virtapi: Nova's own; by it the resource tracker is found.
    :ivar host: this nova-compute's.
    :ivar groups_checked: whether the driver looks at a server's group before it gets a node.
    """

    host = ""
    move_command = (
        "nova-manage db ironic_compute_node_move --ironic-node-uuid {node} "
        "--destination-host {host}"
    )

    def __init__(self, conf: cfg.ConfigOpts, virtapi: Any = None) -> None:
        self._conf = conf
        self._virtapi = virtapi
        self._servicegroup = servicegroup.API()
        self.host = conf.host
        self._presumed: frozenset[str] = frozenset()
        self._observer: observer.Observer | None = None
        self.groups_checked = False

    # -- a standby ------------------------------------------------------------

    def needs(self) -> Mapping[str, Callable[[], object]]:
        """The checks whether requests can reach this nova-compute, by name."""
        return {"RPC": lambda: broker.log_in(self._conf)}

    def standing_by(self) -> None:
        """Learn what it takes to take over quickly."""
        if self.manager is None or self._conf.ironic.node_refresh == "all":
            return
        if self._observer is None:
            path = warm.state_path(self._conf.state_path, self.host)
            self._observer = observer.Observer(self.manager.rt, path)
            self._observer.begin()

    def is_active(self) -> None:
        """Learn no more."""
        if self._observer is not None:
            self._observer.end()

    # -- hosts and records ----------------------------------------------------

    def live_hosts(self) -> Collection[str]:
        """The computes that have bare metal nodes and are up, and this one.

        One without a node yet is unknown to Nova as one for bare metal; so it is for
        Nova's own driver, and the two have to agree.
        """
        services = objects.ServiceList.get_all_computes_by_hv_type(
            nova_context.get_admin_context(), HYPERVISOR_TYPE
        )
        up = self._servicegroup.service_is_up
        return {self.host, *(service.host for service in services if up(service))}

    def owned_instance_uuids(self) -> Collection[str]:
        """The instances that the records give to this host."""
        context = nova_context.get_admin_context()
        return frozenset(objects.InstanceList.get_uuids_by_host(context, self.host))

    def instance_places(self) -> Mapping[str, str]:
        """The compute nodes of this host's instances."""
        instances = objects.InstanceList.get_by_host(
            nova_context.get_admin_context(), self.host, expected_attrs=[]
        )
        return {instance.uuid: instance.node or "" for instance in instances}

    def instance_hosts(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The hosts of instances that are not deleted."""
        instances = self._find_existing(uuids)
        return {instance.uuid: instance.host for instance in instances if instance.host}

    def existing_instances(self, uuids: Collection[str]) -> Collection[str]:
        """Those that are not deleted; one that can be restored is not, and keeps its node."""
        return {instance.uuid for instance in self._find_existing(uuids)}

    def deleted_instances(self, uuids: Collection[str]) -> Collection[str]:
        """Those that this cell knows as deleted: it has no record of those in others."""
        return [instance.uuid for instance in find_instances(uuids) if instance.deleted]

    def _find_existing(self, uuids: Collection[str], *attributes: str) -> Sequence[Any]:
        return find_instances(uuids, attributes, deleted=False, soft_deleted=True)

    # -- shelved servers ------------------------------------------------------

    def placeless(self, uuids: Collection[str]) -> Collection[str]:
        """Those that are deleted, or shelved or in error without a host and a task."""
        ended = (vm_states.SHELVED_OFFLOADED, vm_states.ERROR)
        return [
            server.uuid
            for server in find_instances(uuids)
            if server.deleted
            or (server.vm_state in ended and not server.host and server.task_state is None)
        ]

    def release_place(self, uuid: str) -> None:
        """Delete the allocation in Placement, which Nova leaves when Cinder fails."""
        self.manager.reportclient.delete_allocation_for_instance(
            nova_context.get_admin_context(), uuid, force=True
        )

    def places(self, instance: Any) -> Collection[str]:
        """The uuids of the resource providers that the scheduler has given to a server."""
        client = self.manager.reportclient
        context = nova_context.get_admin_context()
        return list(client.get_allocations_for_consumer(context, instance.uuid) or ())

    # -- server groups --------------------------------------------------------

    def group_of(self, instance: Any) -> virt.ServerGroup | None:
        """The server's group, if the driver checks it."""
        group = self._from_api(instance, objects.InstanceGroup) if self.groups_checked else None
        if group is None:
            return None
        context = nova_context.get_admin_context()
        others = set(group.members) - {instance.uuid}
        members = self._find_existing(others, "system_metadata")
        elsewhere = others - {member.uuid for member in members}
        # Most of these are deleted; those in other cells are known by their nodes.
        domains: dict[str, str | None] = {
            mapping.instance_uuid: None
            for mapping in objects.InstanceMappingList.get_by_instance_uuids(context, elsewhere)
            if mapping.cell_mapping is not None and not mapping.queued_for_delete
        }
        building = 0
        for member in members:
            # One in which a build has just failed has no node, and its domain is a former one.
            domain = member.system_metadata.get(sizes.FAILURE_DOMAIN) if member.node else None
            if domain is None and member.vm_state == vm_states.BUILDING:
                # It writes its domain down later, and looks for this one then.
                building += 1
            elif member.node:
                domains[member.uuid] = domain
        return values.server_group(group, domains=domains, building=building)

    def domains_of(self, instance: Any) -> Collection[str] | None:
        """What the scheduler hint and the flavor say, for servers in pools."""
        if self._conf.ironic.failure_domain is None:
            return None
        spec = self._from_api(instance, objects.RequestSpec)
        hint = None if spec is None else spec.get_scheduler_hint(sizes.HINT)
        return sizes.named_domains(hint, instance.flavor.extra_specs)

    def note_domain(self, instance: Any, domain: str | None) -> None:
        """Keep it with the server, where users don't see it."""
        if domain is not None:
            instance.system_metadata[sizes.FAILURE_DOMAIN] = domain
        elif instance.system_metadata.pop(sizes.FAILURE_DOMAIN, None) is None:
            return
        instance.save()

    @staticmethod
    def _from_api(instance: Any, kind: Any) -> Any:
        """What Nova's API database has of a server; ``None``: this cell has no way to it.

        :raises ReservationFailed: it does not answer.
        """
        try:
            return kind.get_by_instance_uuid(nova_context.get_admin_context(), instance.uuid)
        except exception.NotFound:
            return None
        except Exception as exc:
            # By the name: it is oslo.db's, and comes from the conductor.
            if getattr(exc, "exc_type", type(exc).__name__) == _NO_DATABASE:
                return None
            raise exceptions.ReservationFailed(
                instance.uuid, f"can't ask Nova for the server's group: {exc}", candidates=0
            ) from exc

    def image_of(self, instance: Any) -> virt.ImageLike | None:
        """The server's image, with the properties that it has."""
        return values.image_of(instance.image_meta)

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The hosts of the compute node records; a record's uuid is the node's.

        Nova answers with whole records, 2 kB and near 1 ms each.  So of many nodes, those that
        the resource tracker holds are taken for this host's; see :meth:`was_moved_away`.
        """
        tracked = self.tracked() if len(uuids) > _FEW else ()
        presumed = frozenset(uuid for uuid in uuids if uuid in tracked)
        if len(uuids) > _FEW:
            self._presumed = presumed
        owners = dict.fromkeys(presumed, self.host)
        for some in chunks([uuid for uuid in uuids if uuid not in presumed]):
            records = objects.ComputeNodeList.get_all_by_uuids(
                nova_context.get_admin_context(), some
            )
            owners.update((record.uuid, record.host) for record in records if record.host)
        return owners

    @property
    def manager(self) -> Any:
        """Nova's compute manager; it makes its resource tracker after the driver."""
        return getattr(self._virtapi, "_compute", None)

    def tracked(self) -> Container[str]:
        """The names of the compute nodes that Nova's resource tracker holds."""
        names: Container[str] = () if self.manager is None else self.manager.rt.compute_nodes
        return names

    def was_moved_away(self, uuid: str) -> bool:
        """Whether another host has got a node's record since it was taken for this host's.

        Asked before the resource tracker gets a node.  By then it has asked for this
        host's records again, and would take back the record of a node that it lacks.
        """
        if uuid not in self._presumed or uuid in self.tracked():
            return False
        return self.node_owners([uuid]).get(uuid, self.host) != self.host

    def known_instances(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The names of the instances that Nova knows, by uuid; deleted ones too."""
        # Only the filter, and not the context, decides whether deleted ones are left out.
        return {instance.uuid: instance.name for instance in find_instances(uuids)}

    # -- a build --------------------------------------------------------------

    def abort_reason(self, instance: Any) -> str | None:
        """Whether the instance is being deleted, or has been given up.

        As long as the records can't be read, it is still wanted: a conductor that is away
        for a while must not end what is being deployed.
        """
        try:
            instance.refresh()
        except exception.InstanceNotFound:
            return "the server was deleted meanwhile"
        except Exception as exc:
            LOG.warning(
                "[nova-not-asked] Can't ask Nova whether it is still wanted: %s. Going on",
                exc,
                instance=instance,
            )
            return None
        if instance.task_state in _OF_SERVERS_IN_ERROR_TOO:
            return None
        if instance.task_state == task_states.DELETING:
            return "the server is being deleted"
        if instance.vm_state in (vm_states.ERROR, vm_states.DELETED):
            return f"the server's state has become {instance.vm_state}"
        return None

    @contextlib.contextmanager
    def noting(self, doing: Doing, instance: Any) -> Iterator[None]:
        """Keep why the block has failed with the server's actions, and raise Nova's own error.

        When a build is rescheduled and no node is left, Nova's own fault says only that; when
        an interface can't be attached or detached, it gives no reason.
        """
        try:
            with translated(doing, instance):
                yield
        except _WITHOUT_REASON as error:
            context, event = instance._context, _EVENTS.get(doing, _DEPLOY_EVENT)
            try:
                with compute_utils.EventReporter(context, event, self.host, instance.uuid):
                    raise
            except exception.InstanceActionNotFound as missing:
                LOG.debug("Why instance %s failed was not noted: %s", instance.uuid, missing)
            except Exception as other:
                # What Nova does next depends on the error, so a note that fails is only logged.
                if other is not error:
                    LOG.warning(
                        "[nova-not-asked] Why instance %s failed was not noted: %s",
                        *(instance.uuid, other),
                    )
            raise

    def config_drive(self, request: virt.DeployRequest) -> virt.ConfigDrive | None:
        """Nova's own config drive, if the server is to have one."""
        instance: Any = request.instance
        if not configdrive.required_by(instance):
            return None
        return config_drive.build_config_drive(
            instance,
            values.model_of(request.network_info),
            request.injected_files,
            request.admin_password,
        )

    def instance_metadata(self, instance: Any) -> Mapping[str, str]:
        """The server's metadata."""
        return dict(instance.metadata)

    def fixed_addresses(self, instance: Any) -> Mapping[str, Sequence[str]]:
        """The fixed addresses of the server's ports, as Nova's cache has them."""
        return {
            str(vif["id"]): [ip["address"] for ip in vif.fixed_ips()]
            for vif in instance.get_network_info()
        }

    def deploy_metadata(self, instance: Any, network_info: virt.NetworkInfo) -> Mapping[str, str]:
        """Who the server is for, for operators' tools; the keys are those of Nova's driver."""
        noted = instance.system_metadata
        addresses = values.model_of(network_info)
        metadata = {
            "project_name": str(noted.get("owner_project_name", "N/A")),
            "user_name": str(noted.get("owner_user_name", "N/A")),
            "fixed_ips": str(addresses.fixed_ips()),
            "floating_ips": str(addresses.floating_ips()),
        }
        if instance.flavor.ephemeral_gb and self._conf.default_ephemeral_format:
            metadata["ephemeral_format"] = self._conf.default_ephemeral_format
        return metadata


def find_instances(
    uuids: Collection[str], attributes: Sequence[str] = (), **filters: bool
) -> list[Any]:
    """Instances by their uuids, deleted ones too unless a filter says otherwise."""
    return [
        instance
        for some in chunks(list(uuids))
        for instance in objects.InstanceList.get_by_filters(
            nova_context.get_admin_context(),
            {"uuid": some, **filters},
            expected_attrs=list(attributes),
        )
    ]


def chunks(uuids: Sequence[str]) -> Iterator[list[str]]:
    """Uuids in parts: records are whole in an answer, and a message has a limit."""
    for begin in range(0, len(uuids), _MOST):
        yield list(uuids[begin : begin + _MOST])
