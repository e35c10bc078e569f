# SPDX-License-Identifier: Apache-2.0

"""What the driver asks of the reference service, answered from the records.

Whether a build is still wanted is answered from memory: it is asked often, and the
tasks' loop reads it from the records all the time anyway.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from ironic_virt import virt
from ironic_virt.compute.db import Database
from ironic_virt.compute.db.records import Instance
from ironic_virt.compute.networks import network_data

if TYPE_CHECKING:
    from ironic_virt.compute.engine.tasks import Tasks


class ServiceVirtAPI(virt.VirtAPI):
    """The service's side of the contract.  Thread-safe.

    :param host: this service's host name.
    :param standing_by: called while another process of that name is active.
    :ivar tasks: what the service is carrying out; ``None``: this is a command's driver.
    """

    tasks: Tasks | None = None

    def __init__(
        self,
        host: str,
        database: Database,
        metrics: virt.Metrics,
        standing_by: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._db = database
        self.metrics = metrics
        self._standing_by = standing_by
        self._lock = threading.Lock()
        self._progress: dict[str, tuple[str, str]] = {}

    @property
    def host(self) -> str:
        """The name of this host."""
        return self._host

    def standing_by(self) -> None:
        """Tell the process that another one of this name is active."""
        self._standing_by()

    def live_hosts(self) -> Collection[str]:
        """This host, and the others whose services are up."""
        return {self._host, *self._db.services.up()}

    def owned_instance_uuids(self) -> Collection[str]:
        """The uuids of the instances that this host has."""
        return self.instance_places().keys()

    def node_owners(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The services that have nodes, by the node's uuid."""
        return self._db.compute_nodes.owners(uuids)

    def instance_places(self) -> Mapping[str, str]:
        """The pool or node of each of this host's instances, or ``""``."""
        return self._db.instances.places(self._host)

    def instance_hosts(self, uuids: Collection[str]) -> Mapping[str, str]:
        """The services that have instances, by the instance's uuid."""
        hosts = self._db.instances.hosts(uuids)
        return {uuid: host for uuid, host in hosts.items() if host is not None}

    def existing_instances(self, uuids: Collection[str]) -> Collection[str]:
        """The uuids of those instances that have a record."""
        return self._db.instances.hosts(uuids).keys()

    def image_of(self, instance: Any) -> virt.ImageLike | None:
        """What the record has."""
        return _record(instance).image

    def tried_nodes(self, instance: Any) -> Collection[str]:
        """What the record has."""
        return _record(instance).tried_nodes

    def abort_reason(self, instance: virt.InstanceLike) -> str | None:
        """Why an instance's task is not wanted any more, from memory."""
        return self.tasks.abort_reason(instance.uuid) if self.tasks else None

    def waiting(self, instance_uuid: str | None) -> contextlib.AbstractContextManager[None]:
        """Another task may begin meanwhile."""
        return self.tasks.waiting(instance_uuid) if self.tasks else contextlib.nullcontext()

    def config_drive(self, request: virt.DeployRequest) -> virt.ConfigDrive:
        """The instance's own data; Ironic makes the config drive of it."""
        record = _record(request.instance)
        meta_data: dict[str, Any] = {
            "uuid": record.uuid,
            "name": record.name,
            "hostname": hostname(record),
            "launch_index": 0,
            "meta": dict(record.properties),
        }
        if record.project_id:
            meta_data["project_id"] = record.project_id
        if record.public_key:
            key_name = record.key_name or "default"
            meta_data["public_keys"] = {key_name: record.public_key}
            meta_data["keys"] = [{"name": key_name, "type": "ssh", "data": record.public_key}]
        if request.admin_password:
            meta_data["admin_pass"] = request.admin_password
        return virt.ConfigDrive(
            meta_data=meta_data,
            user_data=record.user_data,
            network_data=network_data(record.networks),
        )

    def instance_metadata(self, instance: Any) -> Mapping[str, str]:
        """What the record has."""
        return _record(instance).properties

    def report_progress(self, instance: virt.InstanceLike, step: str, detail: str = "") -> None:
        """Keep it until :meth:`write_progress`; nothing depends on it."""
        with self._lock:
            self._progress[instance.uuid] = (step, detail)

    def write_progress(self) -> None:
        """Write how far tasks have come, for commands that wait.

        :raises DatabaseError: it could not be written, and is forgotten.
        """
        with self._lock:
            reports, self._progress = self._progress, {}
        if reports:
            self._db.instances.progress_of_all(reports)


def _record(instance: Any) -> Instance:
    """The record that the task began with, which the driver hands back."""
    record: Instance = instance
    return record


def hostname(instance: Instance) -> str:
    """A label of DNS, so 63 characters at most, made of an instance's name, or else its uuid."""
    label = re.sub("[^a-z0-9]+", "-", instance.name.lower()).strip("-")
    return label[:63].rstrip("-") or f"server-{instance.uuid}"
