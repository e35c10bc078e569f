# SPDX-License-Identifier: Apache-2.0

"""Renames the records of pools that have a name from before Ironic could take it.

A pool was called ``gold@compute1``; it is ``gold~compute1`` now
(:mod:`ironic_virt.driver.pools.names`).
Its resource provider, its servers and its compute node record get the new name when the
service starts, before Nova looks at any of them.  Their uuids stay, and so do allocations.

The record is last: as long as it has the former name, the next start does all of it again.
"""

from __future__ import annotations

from typing import Any

from keystoneauth1 import exceptions as ks_exc
from nova import context as nova_context
from nova import exception, objects
from nova.scheduler.client import report
from oslo_log import log as logging

from ironic_virt.driver.pools import names

LOG = logging.getLogger(__name__)

_NOT_FOUND = 404


class NotRenamed(exception.NovaException):  # type: ignore[misc]
    """A pool still has its former name, and the service can't start with it."""

    msg_fmt = (
        "Pool %(former)s can't be renamed to %(name)s yet: %(reason)s. What was done stays; "
        "start the service again to have the rest done"
    )


def rename(host: str) -> None:
    """Rename the pools of a host that have a former name.

    :raises NotRenamed: Placement was not there, or refused.
    """
    context = nova_context.get_admin_context()
    renamed, servers = [], 0
    for record in objects.ComputeNodeList.get_by_hypervisor(context, f"@{host}"):
        former = record.hypervisor_hostname
        name = names.renamed(former, host)
        if record.host != host or name is None or names.pool_uuid(name) != record.uuid:
            continue
        _rename_provider(context, record.uuid, former, name)
        for instance in objects.InstanceList.get_by_host_and_node(
            context, host, former, expected_attrs=[]
        ):
            instance.node = name
            # Nova refuses a change of the name alone, and takes the same id for no change.
            instance.compute_id = None
            instance.compute_id = record.id
            instance.save()
            servers += 1
        record.hypervisor_hostname = name
        record.save()
        renamed.append(f"{former} is now {name}")
    if renamed:
        LOG.info(
            "Renamed %d pools, with %d servers in them, to names that Ironic understands: %s",
            *(len(renamed), servers, ", ".join(renamed)),
        )


def _rename_provider(context: Any, uuid: str, former: str, name: str) -> None:
    try:
        answer = report.SchedulerReportClient().put(
            f"/resource_providers/{uuid}", {"name": name}, global_request_id=context.global_id
        )
    except ks_exc.ClientException as exc:
        raise NotRenamed(former=former, name=name, reason=f"Placement: {exc}") from exc
    # Without a provider nothing was ever reported; Nova makes one.
    if answer.status_code not in (200, _NOT_FOUND):
        raise NotRenamed(
            former=former,
            name=name,
            reason=f"Placement answered {answer.status_code}: {answer.text}",
        )
