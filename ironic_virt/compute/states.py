# SPDX-License-Identifier: Apache-2.0

"""The states of an instance in the reference service's records.  The words are Nova's."""

from __future__ import annotations

import enum


class VmState(enum.StrEnum):
    """What an instance is."""

    BUILDING = "building"
    ACTIVE = "active"
    STOPPED = "stopped"
    RESCUED = "rescued"
    ERROR = "error"
    DELETED = "deleted"


class TaskState(enum.StrEnum):
    """What is wanted of an instance; no task means that nothing is.

    Which requests set them, and what becomes of an instance then, is in
    :mod:`ironic_virt.compute.verbs`.
    """

    SPAWNING = "spawning"
    DELETING = "deleting"
    POWERING_ON = "powering-on"
    POWERING_OFF = "powering-off"
    REBOOTING = "rebooting"
    REBOOTING_HARD = "rebooting-hard"
    REBUILDING = "rebuilding"
    RESCUING = "rescuing"
    UNRESCUING = "unrescuing"
    ATTACHING_INTERFACE = "attaching-interface"
    DETACHING_INTERFACE = "detaching-interface"
    TRIGGERING_CRASH_DUMP = "triggering-crash-dump"
