# SPDX-License-Identifier: Apache-2.0

"""The virt driver that nova-compute loads: Nova's calls, handed to the driver.

It decides nothing.  Values are turned in :mod:`ironic_virt.nova.values`, errors in
:mod:`ironic_virt.nova.errors`, and what the driver asks back is answered in
:mod:`ironic_virt.nova.virtapi`.

Thread-safe, and at home in native threads: nothing here or below knows eventlet.
What it lacks is left to Nova's base class, whose ``NotImplementedError`` Nova turns
into an answer to the user.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any, ClassVar

import nova.conf
from nova import exception
from nova.compute import task_states
from nova.virt import driver as nova_driver
from oslo_log import log as logging

from ironic_virt import driver, exceptions, logs, virt
from ironic_virt.nova import options, tracker, values
from ironic_virt.nova.actions import Actions
from ironic_virt.nova.attachments import Attachments
from ironic_virt.nova.errors import Doing, translated
from ironic_virt.nova.metrics import Offered
from ironic_virt.nova.reports import Reports
from ironic_virt.nova.restarts import Restarts
from ironic_virt.nova.virtapi import NovaVirtAPI
from ironic_virt.nova.zones import State, Zones

LOG = logging.getLogger(__name__)

_EPHEMERAL_DEVICE = "/dev/sda1"

_AWAY = exceptions.IronicUnreachable | exceptions.IronicUnavailable

_JUST_NOW = 2.0
"""Seconds for which a node counts as just read, after an action that ended with a look at it."""


class IronicDriver(Actions, Attachments, Restarts, nova_driver.ComputeDriver):  # type: ignore[misc]
    """Deploys Nova's servers on bare metal through Ironic.

    :param virtapi: Nova's own; by it the resource tracker is found.
    :param read_only: as every driver of Nova's has it; not used.
    :param clock: a monotonic clock in seconds.
    :raises InvalidConfiguration: an ``[ironic]`` option can't be used.
    """

    # Ironic gets the image from Glance by itself, in these formats.  What is not named here is
    # ``False`` in Nova, whose scheduler then sends no request for it.
    capabilities: ClassVar[dict[str, bool]] = {
        **nova_driver.ComputeDriver.capabilities,
        "supports_attach_interface": True,
        "supports_stateless_firmware": False,
        "supports_image_type_ami": True,
        "supports_image_type_qcow2": True,
        "supports_image_type_raw": True,
    }

    def __init__(
        self,
        virtapi: Any,
        read_only: bool = False,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(virtapi)
        logs.log_errors_once()
        conf = nova.conf.CONF
        options.register_opts(conf)
        self._records = NovaVirtAPI(conf, virtapi)
        with translated(Doing.START):
            options.check_release()
            options.check_options(conf)
            self._metrics = Offered(conf)
            self._records.metrics = self._metrics.collector
            self._driver = driver.IronicDriver(conf, self._records)
        if conf.ironic.failure_domain is not None:
            self._records.groups_checked = options.take_over_group_check(nova_driver.CONF)
        # Nova 2024.1 asks whether this host is a new one before it calls init_host.
        self._starting = self._answered = True
        self._clock = clock
        self._read_at: dict[str, float] = {}
        self._resources = Reports(self._driver.node_version, self._resource)
        self._offers = Reports(self._driver.node_version, self._offer)
        self._zones = Zones()
        LOG.info("Loaded the driver of ironic_virt %s", metadata.version("ironic-virt"))

    # -- the service's life ---------------------------------------------------

    def init_host(self, host: str) -> None:
        """Wait to be the active one; check the options against Ironic, if it can be reached yet.

        :raises InvalidConfiguration: they can't be served.
        """
        self._records.host = host
        self._starting = self._answered = True
        self._metrics.begin(self._driver)
        try:
            with translated(Doing.START):
                self._driver.init_host(host)
        except exception.InvalidConfiguration as exc:
            if not isinstance(exc.__cause__, _AWAY):
                raise
            # Nova starts without it; nothing is listed before the check is made up for.
            LOG.warning("[ironic-unreachable] Ironic does not answer yet. Starting without it")
            self._answered = False
        self._records.is_active()
        manager = self._records.manager
        if manager is None:
            # Nova does not run this driver.
            return
        # Nova 34 does not call it: no server is ever evacuated from here.  Older releases tear
        # a server down if somebody has asked for that, even while nothing has come of it.
        manager._destroy_evacuated_instances = lambda context, nodes: {}
        if not hasattr(nova_driver.ComputeDriver, "process_instances_at_startup"):
            self.stand_before(manager)
        if self._driver.lease is not None:
            # Only a standby needs its module.
            from ironic_virt.nova.service_record import ServiceRecord

            record = ServiceRecord(host, self._driver.lease, self._driver.conf.service_down_time)
            record.take_over(manager)
        tracker.install_passes(
            manager.rt, self._driver.conf, self._offered, self._metrics.collector
        )

    def _offered(self, name: str) -> tuple[Any, Any, State]:
        return self._offers.of(name), self._resources.of(name), self._zones.state(name)

    def cleanup_host(self, host: str) -> None:
        """End no wait; let a standby take over.

        Nova 34 calls this while actions go on.  One that failed now would put its server into
        ERROR, or tear its node down; the next start takes up what ends with the process.
        """
        self._driver.let_go()
        self._metrics.end()

    # -- nodes ----------------------------------------------------------------

    @property
    def rebalances_nodes(self) -> bool:
        """Whether nodes move between services by themselves."""
        return self._driver.rebalances_nodes()

    def get_available_nodes(self, refresh: bool = False) -> list[str]:
        """The uuids of this host's nodes, listed again at each call but the first one.

        Nova's resource tracker relies on that and never says ``refresh``.  Before its
        first call, starting has listed the nodes already.

        :raises VirtDriverNotReady: the nodes have never been listed, and can't be listed now.
        """
        refresh, starting, self._starting = refresh or not self._starting, self._starting, False
        self._check_answered(starting)
        with translated(Doing.LIST):
            nodes = self._driver.get_available_nodes(refresh)
        self._resources.forget_others(nodes)
        self._offers.forget_others(nodes)
        self._zones.read(self._records.host)
        return nodes

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        """The names of this host's nodes and pools by uuid; a node's name is its uuid."""
        self._check_answered(self._starting)
        with translated(Doing.LIST):
            names = self._driver.get_available_nodes(refresh)
            return {self._driver.record_uuid(name): name for name in names}

    def _check_answered(self, starting: bool) -> None:
        """See that Ironic has answered, as long as the service starts.

        Nova asks for nodes twice more before it listens to requests, and each time would
        take as long as the first one.  Its periodic task asks again.

        :raises VirtDriverNotReady: it has not.
        """
        if starting and not self._answered:
            raise exception.VirtDriverNotReady("Ironic has not answered yet")

    def node_is_available(self, nodename: str) -> bool:
        """Whether the node is this host's."""
        with translated(Doing.LIST):
            return self._driver.node_is_available(nodename)

    def is_node_deleted(self, nodename: str) -> bool:
        """Whether Ironic itself says that it has no such node; ``False`` if in doubt."""
        return self._driver.is_node_deleted(nodename)

    def get_available_resource(self, nodename: str) -> Any:
        """What the node is, for its compute node record.

        :raises ComputeHostNotFound: the record is another host's by now.
        """
        if self._records.was_moved_away(nodename) and not self._driver.rebalances_nodes():
            LOG.info(
                "The record of node %s was moved to another host, which manages it from now on",
                nodename,
            )
            raise exception.ComputeHostNotFound(host=nodename)
        # Nova adds to it, and to what is in it.
        return copy.deepcopy(self._resources.of(nodename))

    def _resource(self, nodename: str) -> Mapping[str, Any]:
        with translated(Doing.NODE):
            return values.resource_of(self._driver.get_available_resource(nodename))

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        """What the node offers, for its resource provider; nothing is ever reshaped."""
        values.update_provider_tree(provider_tree, nodename, self._offers.of(nodename))
        self._zones.update(provider_tree, nodename)

    def _offer(self, nodename: str) -> values.ProviderOffer:
        with translated(Doing.NODE):
            return values.offer_of(nodename, self._driver.get_inventory(nodename))

    # -- instances ------------------------------------------------------------

    def _known(self) -> Mapping[str, str]:
        """Instances on this host's nodes that are Nova's: name by uuid.

        Others use Ironic too; their instances are none of Nova's business.
        """
        with translated(Doing.LIST):
            uuids = self._driver.list_instance_uuids()
        return self._records.known_instances(uuids)

    def list_instances(self) -> list[str]:
        """Names of Nova's instances on this host's nodes."""
        return list(self._known().values())

    def list_instance_uuids(self) -> list[str]:
        """The uuids of Nova's instances on this host's nodes, deleted ones too.

        Nova tears down those that it has deleted (``running_deleted_instance_action``).  A new
        service refuses to start if it finds instances, so at the start only those are listed
        that the records give to this host.  A standby lists none: it is not new, even if Nova
        read its record before it became active.
        """
        if not self._starting:
            return list(self._known())
        if self._driver.lease is not None and self._driver.lease.was_standby:
            return []
        owned = self._records.owned_instance_uuids()
        # One that has none needs no Ironic to be new.
        return [uuid for uuid in self._known() if uuid in owned] if owned else []

    def get_num_instances(self) -> int:
        """How many of this host's instances are on its nodes."""
        with translated(Doing.LIST):
            uuids = self._driver.list_instance_uuids()
        return len(set(uuids).intersection(self._records.owned_instance_uuids()))

    def instance_exists(self, instance: Any) -> bool:
        """Whether any node carries the instance."""
        with translated(Doing.LOOK, instance):
            return self._driver.instance_exists(instance)

    def get_info(self, instance: Any, use_cache: bool = True) -> Any:
        """The power state; without a node it is ``NOSTATE``.

        After each action Nova asks again, and not from a cache.  The action has just read the
        node, so that answer is used instead of another request.

        Until the service has started, the state comes from the records if Ironic has none to
        tell: an error would end the start.  Once it is away, it isn't asked for each server.
        """
        if self._starting and not self._answered:
            return values.instance_info(instance.power_state)
        read_at = self._read_at.pop(instance.uuid, None)
        use_cache = use_cache or (read_at is not None and self._clock() - read_at < _JUST_NOW)
        try:
            with translated(Doing.LOOK, instance):
                return values.instance_info(self._driver.get_info(instance, use_cache).state)
        except exception.InstanceNotFound:
            return values.instance_info(None)
        except exception.NovaException as exc:
            if not self._starting:
                raise
            self._answered = not isinstance(exc.__cause__, _AWAY)
            return values.instance_info(instance.power_state)

    # -- building and deleting ------------------------------------------------

    def prepare_for_spawn(self, instance: Any) -> None:
        """Reserve the node for the instance, or refuse and change nothing."""
        with self._records.noting(Doing.PREPARE, instance):
            self._driver.prepare_for_spawn(instance)

    def spawn(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Sequence[tuple[str, bytes]],
        admin_password: str | None,
        allocations: Any,
        network_info: Any = None,
        block_device_info: Any = None,
        power_on: bool = True,
        accel_info: Any = None,
    ) -> None:
        """Deploy the instance, and return when it is active."""
        if instance.flavor.ephemeral_gb:
            # The metadata service tells cloud-init of it, as soon as the node boots.
            instance.default_ephemeral_device = _EPHEMERAL_DEVICE
            instance.save()
        with self._records.noting(Doing.SPAWN, instance), self._acting(Doing.SPAWN, instance):
            self._driver.spawn(
                virt.DeployRequest(
                    instance,
                    image_meta,
                    values.Vifs(network_info),
                    injected_files,
                    admin_password,
                    values.volumes_of(block_device_info),
                )
            )
            if not power_on:
                self._driver.power_off(instance)

    def failed_spawn_cleanup(self, instance: Any) -> None:
        """Undo what a failed build left."""
        with translated(Doing.DESTROY, instance):
            self._driver.failed_spawn_cleanup(instance)

    def destroy(
        self,
        context: Any,
        instance: Any,
        network_info: Any,
        block_device_info: Any = None,
        destroy_disks: bool = True,
        destroy_secrets: bool = True,
    ) -> None:
        """Tear the instance down; return when no node carries it any more."""
        self._read_at.pop(instance.uuid, None)
        with translated(Doing.DESTROY, instance):
            self._driver.destroy(instance)

    def rebuild(
        self,
        context: Any,
        instance: Any,
        image_meta: Any,
        injected_files: Sequence[tuple[str, bytes]],
        admin_password: str | None,
        allocations: Any,
        bdms: Any,
        detach_block_devices: Any,
        attach_block_devices: Any,
        network_info: Any = None,
        evacuate: bool = False,
        block_device_info: Any = None,
        preserve_ephemeral: bool = False,
        accel_uuids: Any = None,
        reimage_boot_volume: bool = False,
    ) -> None:
        """Deploy an image onto the server's node again.

        From compute API 2.93 on, ``reimage_boot_volume`` is true for every server; it
        means something for those that boot from a volume, which are refused.  Nova itself refuses
        to evacuate.

        :raises InstanceFaultRollback: the disk is as it was, and so the server stays.
        """
        with self._acting(Doing.REBUILD, instance):
            # Nova goes on from this one.
            instance.task_state = task_states.REBUILD_SPAWNING
            instance.save(expected_task_state=[task_states.REBUILDING])
            self._driver.rebuild(
                virt.DeployRequest(
                    instance,
                    image_meta,
                    values.Vifs(network_info),
                    injected_files,
                    admin_password,
                    values.volumes_of(block_device_info),
                    request_id=getattr(context, "request_id", None),
                    preserve_ephemeral=preserve_ephemeral,
                )
            )
