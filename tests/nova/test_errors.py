# SPDX-License-Identifier: Apache-2.0

"""The Nova error that nova-compute gets for each of our errors, and what it does then."""

import logging

import pytest
from nova import exception, objects
from nova.compute import utils as compute_utils

from ironic_virt import exceptions
from ironic_virt.nova.errors import Doing, translate_error, translated

NODE = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
UUID = "6d2b4f02-0000-4000-8000-000000000001"
OTHER = "6d2b4f02-0000-4000-8000-00000000beef"
INSTANCE = objects.Instance(uuid=UUID)

RESCHEDULED = (exception.ComputeResourcesUnavailable, exception.InstanceDeployFailure)
ABORTED = (exception.InstanceUnacceptable, exception.BuildAbortException)


def reasons(kind: type[exceptions.IronicVirtError]) -> exceptions.IronicVirtError:
    """An error of a kind, as the driver raises it."""
    match kind:
        case exceptions.NodeTaken:
            return exceptions.NodeTaken(NODE, UUID, OTHER)
        case exceptions.NodeValidationFailed:
            return exceptions.NodeValidationFailed(NODE, UUID, {"deploy": "no kernel"})
        case exceptions.VifAttachFailed:
            return exceptions.VifAttachFailed(NODE, UUID, "vif", "no port is left")
        case exceptions.NoFreePort | exceptions.VifDetachFailed:
            return kind(NODE, UUID, "vif", "this is why")
        case exceptions.VolumeFailed:
            return exceptions.VolumeFailed(NODE, UUID, "volume", "this is why")
        case exceptions.WaitTimeout:
            return exceptions.WaitTimeout(NODE, UUID, "be deployed", 60, "deploying")
        case exceptions.RebuildFailed:
            return exceptions.RebuildFailed(NODE, UUID, "this is why", exceptions.Disk.UNKNOWN)
        case exceptions.HookFailed:
            return exceptions.HookFailed(NODE, UUID, "storage", "this is why")
        case exceptions.ConsoleUnavailable:
            return exceptions.ConsoleUnavailable(NODE, UUID, "vnc", "this is why")
        case exceptions.ConfigDriveTooLarge:
            return exceptions.ConfigDriveTooLarge(NODE, UUID, 2, 1, "packed")
        case exceptions.ReservationFailed:
            return exceptions.ReservationFailed(
                UUID, "this is why", candidates=3, rounds=["taken"]
            )
        case exceptions.MicroversionNotSupported:
            return exceptions.MicroversionNotSupported("shards", "1.82", "1.50")
        case exceptions.NodeUnreadable:
            return exceptions.NodeUnreadable(["instance_uuid"], node=NODE)
        case exceptions.OperationNotSupported:
            return exceptions.OperationNotSupported("volumes")
        case exceptions.InvalidExtraSpec:
            return exceptions.InvalidExtraSpec("flavor gold", "steps", "7", "a list")
        case _ if issubclass(kind, exceptions.NodeError):
            return kind(NODE, UUID, "this is why")
        case _:
            return kind("this is why")


@pytest.mark.parametrize(
    "kind",
    [
        *(exceptions.NodeNotAvailable, exceptions.NodeTaken, exceptions.NodeNotOurs),
        *(exceptions.ReservationFailed, exceptions.NodeValidationFailed),
        *(exceptions.DeployFailed, exceptions.VifAttachFailed, exceptions.WaitTimeout),
        *(exceptions.IronicUnreachable, exceptions.IronicUnavailable, exceptions.NodeLocked),
        exceptions.BadRequest,
    ],
)
def test_a_build_that_may_work_elsewhere_is_rescheduled(kind) -> None:
    error = reasons(kind)
    assert isinstance(translate_error(error, Doing.PREPARE, INSTANCE), RESCHEDULED[0])
    assert isinstance(translate_error(error, Doing.SPAWN, INSTANCE), RESCHEDULED)


@pytest.mark.parametrize(
    "kind",
    [
        *(exceptions.ImageRefused, exceptions.HookFailed, exceptions.NodeNotGiven),
        *(exceptions.IronicUnauthorized, exceptions.MicroversionNotSupported),
        *(exceptions.OperationNotSupported, exceptions.WaitCancelled),
    ],
)
def test_where_no_node_would_do_better_the_build_is_aborted(kind) -> None:
    error = reasons(kind)
    # Before the spawn, Nova would replace the text of a BuildAbortException.
    assert type(translate_error(error, Doing.PREPARE, INSTANCE)) is ABORTED[0]
    assert type(translate_error(error, Doing.SPAWN, INSTANCE)) is ABORTED[1]


@pytest.mark.parametrize("doing", [Doing.PREPARE, Doing.SPAWN, Doing.REBUILD])
def test_a_server_that_is_being_deleted_is_no_failed_build(doing: Doing) -> None:
    error = exceptions.BuildAborted(NODE, UUID, "the server is being deleted")
    told = translate_error(error, doing, INSTANCE)
    assert isinstance(told, exception.UnexpectedDeletingTaskStateError)


def test_only_what_has_failed_is_an_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with (
        pytest.raises(exception.UnexpectedDeletingTaskStateError),
        translated(Doing.SPAWN, INSTANCE),
    ):
        raise exceptions.BuildAborted(NODE, UUID, "the server is being deleted")
    with pytest.raises(exception.InstanceDeployFailure), translated(Doing.SPAWN, INSTANCE):
        raise exceptions.DeployFailed(NODE, UUID, "the disk is gone")
    told = {record.levelname: record.message for record in caplog.records}
    assert set(told) == {"INFO", "ERROR"}
    assert "Ended deploying" in told["INFO"]
    assert "Failed deploying" in told["ERROR"]


@pytest.mark.parametrize(
    "kind",
    [
        exceptions.TearDownFailed,
        exceptions.WaitTimeout,
        exceptions.NodeNotOurs,
        exceptions.IronicUnreachable,
        exceptions.IronicUnauthorized,
    ],
)
def test_what_could_not_be_torn_down_keeps_its_ports(kind) -> None:
    # The one kind after which Nova does not release them.
    told = translate_error(reasons(kind), Doing.DESTROY, INSTANCE)
    assert isinstance(told, exception.InstancePowerOffFailure)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.RebuildFailed(NODE, UUID, "this is why", exceptions.Disk.UNTOUCHED),
        exceptions.OperationNotSupported("this"),
    ],
)
def test_a_server_whose_disk_is_as_it_was_stays_as_it_is(error) -> None:
    told = translate_error(error, Doing.REBUILD, INSTANCE)
    assert isinstance(told, exception.InstanceFaultRollback)
    assert "this" in compute_utils.exception_to_dict(told.inner_exception)["message"]


@pytest.mark.parametrize("disk", [*exceptions.Disk][1:])
def test_a_server_whose_disk_changed_is_in_error_and_says_so(disk) -> None:
    error = exceptions.RebuildFailed(NODE, UUID, "this is why" * 99, disk)
    told = translate_error(error, Doing.REBUILD, INSTANCE)
    assert not isinstance(told, exception.InstanceFaultRollback)
    assert disk.value in compute_utils.exception_to_dict(told)["message"]


def test_a_rebuild_without_a_node_is_told_of() -> None:
    # Nova passes over InstanceNotFound, and the server would seem to be rebuilt forever.
    told = translate_error(exceptions.InstanceNotFound(UUID), Doing.REBUILD, INSTANCE)
    assert not isinstance(told, exception.InstanceNotFound)


@pytest.mark.parametrize(
    ("doing", "kind"),
    [
        (Doing.RESCUE, exception.InstanceRescueFailure),
        (Doing.UNRESCUE, exception.InstanceUnRescueFailure),
    ],
)
@pytest.mark.parametrize(
    "error",
    [
        exceptions.RescueFailed(NODE, UUID, "the ramdisk has no network"),
        exceptions.WaitTimeout(NODE, UUID, "be rescued", 60, "rescuing"),
        exceptions.OperationNotSupported("rescuing without a password"),
        # Nova's unrescue would pass over its InstanceNotFound.
        exceptions.InstanceNotFound(UUID),
    ],
)
def test_a_rescue_that_failed_is_told_of_as_such(doing, kind, error) -> None:
    assert type(translate_error(error, doing, INSTANCE)) is kind


@pytest.mark.parametrize("doing", [Doing.REBOOT, Doing.POWER_ON, Doing.POWER_OFF, Doing.LOOK])
def test_an_instance_without_a_node_is_not_found(doing: Doing) -> None:
    told = translate_error(exceptions.InstanceNotFound(UUID), doing, INSTANCE)
    assert isinstance(told, exception.InstanceNotFound)


@pytest.mark.parametrize(
    "kind",
    [exceptions.InventoryTooOld, exceptions.IronicUnreachable, exceptions.IronicUnauthorized],
)
def test_without_a_list_the_driver_is_not_ready(kind) -> None:
    assert isinstance(translate_error(reasons(kind), Doing.LIST), exception.VirtDriverNotReady)


@pytest.mark.parametrize("doing", [each for each in Doing if each is not Doing.NODE])
def test_a_user_reads_the_reason_whatever_was_being_done(doing: Doing) -> None:
    error = exceptions.TearDownFailed(NODE, UUID, "the BMC says no")
    error.add_note("Undoing it failed too")
    told = translate_error(error, doing, INSTANCE)
    # Nova shows users only the texts of Nova's errors, and no more than 255 characters.
    shown = compute_utils.exception_to_dict(told)["message"]
    assert "the BMC says no; Undoing it failed too" in shown


def test_every_error_has_a_translation_for_all_that_is_done() -> None:
    def kinds(kind):
        # A private one is of a public kind or shared by several; a room's own never leaves it.
        if not kind.__name__.startswith("_") and kind.__module__.startswith(exceptions.__name__):
            yield kind
        for one in kind.__subclasses__():
            yield from kinds(one)

    roots = (
        *(exceptions.NodeError, exceptions.IronicError, exceptions.InstanceNotFound),
        *(exceptions.OperationNotSupported, exceptions.InvalidExtraSpec),
    )
    for kind in {one for root in roots for one in kinds(root)}:
        for doing in Doing:
            assert isinstance(
                translate_error(reasons(kind), doing, INSTANCE), exception.NovaException
            )


def test_errors_that_are_not_ours_pass() -> None:
    with pytest.raises(ZeroDivisionError), translated(Doing.SPAWN, INSTANCE):
        raise ZeroDivisionError
