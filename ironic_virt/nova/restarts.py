# SPDX-License-Identifier: Apache-2.0

"""What a restart of nova-compute has interrupted is finished, not given up.

Nova gives some of it up, leaves some in its task permanently, and does the rest again, one server
after the other, before it serves any request: ``doc/source/nova/restarts.rst`` has the table.
The driver sees the host's servers before that: since 2026.2 Nova shows them, and up to 2026.1 it
replaces the method that sees to each.  A thread for each of these waits for its node.  A build's
thread holds the lock of Nova's builds: a delete waits for it as for those, and ends the wait.

What only Nova's process knew is lost: a build that fails can't be rescheduled, and if it had not
come to the deployment, the contents of its config drive are gone.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

from nova import context as nova_context
from nova import exception, objects, utils
from nova.compute import task_states, vm_states
from nova.compute import utils as compute_utils
from oslo_log import log as logging

from ironic_virt import driver, virt
from ironic_virt.nova.actions import SHELVING
from ironic_virt.nova.errors import Doing, translated
from ironic_virt.nova.virtapi import NovaVirtAPI

LOG = logging.getLogger(__name__)

_AGAIN = frozenset(
    {*task_states.soft_reboot_states, *task_states.hard_reboot_states}
    | {task_states.POWERING_OFF, task_states.POWERING_ON}
)
"""Tasks that Nova itself does again at a start, as the server's state wants it."""
_BUILD = "compute__do_build_and_run_instance"
_REBUILD = "compute_rebuild_instance"
_RESCUE = "compute_rescue_instance"
_UNSHELVE = "compute_unshelve_instance"
"""Nova's names for the parts of the server's actions that are done here."""
_ENDED_MEANWHILE = (exception.InstanceNotFound, exception.UnexpectedTaskStateError)
"""By a user's delete, or by a process that had this host's lease before."""


class Restarts:
    """The part of the virt driver that is about what a restart has interrupted."""

    _driver: driver.IronicDriver
    _records: NovaVirtAPI

    def process_instances_at_startup(self, context: Any, instances: Any) -> Any:
        """Take up what was interrupted, and leave the other servers to Nova."""
        rest = [instance for instance in instances if not self._is_taken_up(instance)]
        return objects.InstanceList(context, objects=rest)

    def stand_before(self, manager: Any) -> None:
        """Have Nova up to 2026.1 leave to the driver what was interrupted."""

        def see_to(context: Any, instance: Any) -> None:
            if not self._is_taken_up(instance):
                self._leave(context, instance)

        manager._init_instance = see_to

    def _leave(self, context: Any, instance: Any) -> None:
        manager = self._records.manager
        type(manager)._init_instance(manager, context, instance)

    def _is_taken_up(self, instance: Any) -> bool:
        manager = self._records.manager
        vm_state, task_state = instance.vm_state, instance.task_state
        is_deleting = task_state == task_states.DELETING and vm_state != vm_states.DELETED
        # Shortly before the spawn, Nova's build may have overwritten a delete's task state.
        if is_deleting or (vm_state == vm_states.BUILDING and _requests(instance, "delete")):
            self._begin(instance, "delete", self._delete)
        elif _was_deploying(instance):
            action = "create" if vm_state == vm_states.BUILDING else "unshelve"
            build = utils.synchronized(instance.uuid)(self._finish_build)
            self._begin(instance, action, build)
        elif task_state == task_states.REBUILD_SPAWNING:
            self._begin(instance, "rebuild", self._finish_rebuild)
        elif task_state == task_states.RESCUING:
            self._begin(instance, "rescue", self._finish_rescue)
        elif task_state == task_states.UNRESCUING:
            # What Ironic has done of it by now is not done again.
            self._begin(instance, "unrescue", manager.unrescue_instance)
        elif task_state == task_states.SOFT_DELETING:
            # Nova would leave it so, and do nothing about any other delete.
            self._begin(instance, "delete", manager.soft_delete_instance)
        elif task_state == task_states.RESTORING:
            self._begin(instance, "restore", manager.restore_instance)
        elif task_state in SHELVING and compute_utils.is_volume_backed_instance(
            instance._context, instance
        ):
            how = {"clean_shutdown": True, "accel_uuids": []}
            shelve = functools.partial(manager.shelve_offload_instance, **how)
            self._begin(instance, "shelve", shelve)
        elif task_state in SHELVING or (task_state and vm_state == vm_states.ERROR):
            # Nova would leave it so.  Without the task, its user can ask for it again.
            self._begin(instance, None, _drop_task)
        elif task_state in _AGAIN:
            self._begin(instance, None, self._leave)
        else:
            return False
        return True

    def _begin(self, instance: Any, action: str | None, finish: Callable[[Any, Any], Any]) -> None:
        task_state = instance.task_state
        LOG.info("Finishing its task %r, which was interrupted", task_state, instance=instance)
        manager, context = self._records.manager, _context_of(instance, action)
        task = _telling(instance, lambda: finish(context, instance))
        if hasattr(manager, "_start_recorded_task"):
            from nova import thread_pool_factory

            kind, name = thread_pool_factory.ExecutorType.LONG_TASK, f"finish {task_state}"
            manager._start_recorded_task(kind, name, instance, context, task)
        elif hasattr(manager, "_long_task_executor"):
            utils.spawn_on(manager._long_task_executor, task)
        else:
            utils.spawn(task)

    def _delete(self, context: Any, instance: Any) -> None:
        volumes = objects.BlockDeviceMappingList.get_by_instance_uuid(context, instance.uuid)
        self._records.manager.terminate_instance(context, instance, volumes)

    def _finish_rescue(self, context: Any, instance: Any) -> None:
        def rescue() -> None:
            request = context.request_id
            action = objects.InstanceAction.get_by_request_id(context, instance.uuid, request)
            with translated(Doing.RESCUE, instance):
                self._driver.finish_rescue(instance, action and action.start_time)
            self._records.manager._update_instance_after_spawn(instance, vm_states.RESCUED)
            instance.save(expected_task_state=task_states.RESCUING)

        self._carry_out(context, instance, _RESCUE, rescue)

    def _finish_rebuild(self, context: Any, instance: Any) -> None:
        manager, was_stopped = self._records.manager, instance.vm_state == vm_states.STOPPED
        request = virt.DeployRequest(
            instance, instance.image_meta, request_id=context.request_id, resumes=True
        )

        def rebuild() -> None:
            with translated(Doing.REBUILD, instance):
                self._driver.rebuild(request)
            manager._update_instance_after_spawn(instance)
            if was_stopped:
                instance.task_state = task_states.POWERING_OFF
            instance.save(expected_task_state=task_states.REBUILD_SPAWNING)

        error = self._carry_out(context, instance, _REBUILD, rebuild)
        if was_stopped and error is None:
            manager.stop_instance(context, instance, False)

    def _finish_build(self, context: Any, instance: Any) -> None:
        """Wait for the node, and end the build or unshelve as Nova ends its own."""
        manager = self._records.manager
        # It may have waited for its turn.
        instance.refresh()
        if not _was_deploying(instance) and instance.task_state != task_states.DELETING:
            LOG.info("Its build was given up meanwhile", instance=instance)
            return

        part = _BUILD if instance.vm_state == vm_states.BUILDING else _UNSHELVE

        def build() -> None:
            with translated(Doing.SPAWN, instance):
                self._driver.finish_spawn(instance)
            manager._update_instance_after_spawn(instance)
            compute_utils.remove_shelved_keys_from_system_metadata(instance)
            instance.save(expected_task_state=task_states.SPAWNING)
            LOG.info("Its interrupted build is finished", instance=instance)

        error = self._carry_out(context, instance, part, build)
        if isinstance(error, _ENDED_MEANWHILE) or part == _UNSHELVE:
            return
        phase = "error"
        usage: dict[str, Any] = {"fault": error}
        if error is None:
            manager._update_scheduler_instance_info(context, instance)
            phase, usage = "end", {"extra_usage_info": {"message": "Success"}}
            usage["network_info"] = instance.get_network_info()
        manager._notify_about_instance_usage(context, instance, f"create.{phase}", **usage)
        compute_utils.notify_about_instance_create(
            context, instance, manager.host, phase=phase, exception=error
        )

    def _carry_out(
        self, context: Any, instance: Any, name: str, act: Callable[[], None]
    ) -> Exception | None:
        """Do a part of a server's action, and write down how it ended.

        :param name: Nova's, of the part.
        :returns: what ``act`` raised; the server is in ERROR then, unless others have ended it.
        """
        error: Exception | None = None
        try:
            act()
        except _ENDED_MEANWHILE as exc:
            LOG.info("Its task was ended meanwhile: %s", exc, instance=instance)
            error = exc
        except Exception as exc:
            error = exc
            # No lock keeps a delete from coming in between; its task stays.
            if instance.task_state != task_states.DELETING:
                compute_utils.add_instance_fault_from_exc(context, instance, exc, sys.exc_info())
                self._records.manager._set_instance_obj_error_state(
                    instance, clean_task_state=True
                )
        gone = (exception.InstanceActionNotFound, exception.InstanceActionEventNotFound)
        ended = {"exc_val": error, "exc_tb": error and error.__traceback__, "want_result": False}
        with contextlib.suppress(*gone):
            objects.InstanceActionEvent.event_finish_with_failure(
                context, instance.uuid, name, **ended
            )
        return error


def _telling(instance: Any, finish: Callable[[], None]) -> Callable[[], None]:
    """Wrap a function that runs in a thread, so that its errors are logged."""
    task = instance.task_state

    def finished() -> None:
        try:
            finish()
        except exception.InstanceNotFound as exc:
            LOG.info("Its task %r is dropped, no node has it: %s", task, exc, instance=instance)
        except Exception as exc:
            LOG.error(
                "[task-not-finished] Its task %r, which a restart has interrupted, has failed: %s",
                *(task, exc),
                instance=instance,
            )
            raise

    return finished


def _drop_task(context: Any, instance: Any) -> None:
    task, instance.task_state = instance.task_state, None
    instance.save(expected_task_state=task)


def _was_deploying(instance: Any) -> bool:
    return bool(
        instance.vm_state in (vm_states.BUILDING, vm_states.SHELVED_OFFLOADED)
        and instance.task_state == task_states.SPAWNING
        and instance.node
    )


def _requests(instance: Any, action: str) -> list[str]:
    """The ids of the requests for an action, the last one first."""
    actions = objects.InstanceActionList.get_by_instance_uuid(
        nova_context.get_admin_context(), instance.uuid
    )
    return [entry.request_id for entry in actions if entry.action == action]


def _context_of(instance: Any, action: str | None) -> Any:
    """A context that ties what is done to the server's last action of this name."""
    requests = _requests(instance, action) if action else []
    if not requests:
        # Without a project, Nova takes the server's last action of any name.
        return nova_context.get_admin_context()
    return nova_context.RequestContext(
        user_id=instance.user_id,
        project_id=instance.project_id,
        is_admin=True,
        request_id=requests[0],
        overwrite=False,
    )
