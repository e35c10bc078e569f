# SPDX-License-Identifier: Apache-2.0

"""Ironic's provision and power states, and what each means to a driver.

States are plain strings, as the API sends them: a server newer than this table
may send others, and those are kept as they are.  An unknown state never counts
as free, and never as torn down.

Source: Ironic 39.0.0, ``doc/source/user/states.rst`` and its state machine.
"""

from __future__ import annotations

import enum
from typing import Final

# -- provision states ---------------------------------------------------------

ENROLL: Final = "enroll"
VERIFYING: Final = "verifying"
MANAGEABLE: Final = "manageable"
AVAILABLE: Final = "available"

DEPLOYING: Final = "deploying"
DEPLOY_WAIT: Final = "wait call-back"
DEPLOY_HOLD: Final = "deploy hold"
DEPLOY_FAILED: Final = "deploy failed"
DEPLOY_DONE: Final = "deploy complete"
ACTIVE: Final = "active"

DELETING: Final = "deleting"
DELETED: Final = "deleted"
ERROR: Final = "error"

CLEANING: Final = "cleaning"
CLEAN_WAIT: Final = "clean wait"
CLEAN_HOLD: Final = "clean hold"
CLEAN_FAILED: Final = "clean failed"

INSPECTING: Final = "inspecting"
INSPECT_WAIT: Final = "inspect wait"
INSPECT_FAILED: Final = "inspect failed"

ADOPTING: Final = "adopting"
ADOPT_FAILED: Final = "adopt failed"

RESCUING: Final = "rescuing"
RESCUE_WAIT: Final = "rescue wait"
RESCUE: Final = "rescue"
RESCUE_FAILED: Final = "rescue failed"
UNRESCUING: Final = "unrescuing"
UNRESCUE_FAILED: Final = "unrescue failed"

SERVICING: Final = "servicing"
SERVICE_WAIT: Final = "service wait"
SERVICE_HOLD: Final = "service hold"
SERVICE_FAILED: Final = "service failed"

DEPLOY_IN_PROGRESS: Final = frozenset({DEPLOYING, DEPLOY_WAIT, DEPLOY_HOLD, DEPLOY_DONE})
"""A deployment runs; hold is a pause that an operator or a step has ordered."""

REBUILDABLE: Final = frozenset({ACTIVE, DEPLOY_FAILED, ERROR})
"""Ironic takes the verb "rebuild" in these."""

DEPLOYED: Final = frozenset(
    {
        ACTIVE,
        RESCUING,
        RESCUE_WAIT,
        RESCUE,
        RESCUE_FAILED,
        UNRESCUING,
        UNRESCUE_FAILED,
        SERVICING,
        SERVICE_WAIT,
        SERVICE_HOLD,
        SERVICE_FAILED,
    }
)
"""A deployment has come to its end: all of these are reached by way of "active" only."""

OUT_OF_ACTIVE: Final = DEPLOYED - {ACTIVE}
"""To these no deployment leads, but a rescue or service does."""

RESCUE_IN_PROGRESS: Final = frozenset({RESCUING, RESCUE_WAIT, UNRESCUING})

RESCUABLE: Final = frozenset({ACTIVE, RESCUE, RESCUE_FAILED, UNRESCUE_FAILED})
"""Ironic takes the verb "rescue" in these, and in "service failed", which is another's."""

UNRESCUABLE: Final = frozenset({RESCUE, RESCUE_FAILED, UNRESCUE_FAILED})
"""Ironic takes the verb "unrescue" in these."""

TAKES_INTERFACES: Final = frozenset(
    {ACTIVE, RESCUE, RESCUE_FAILED, UNRESCUE_FAILED, SERVICE_FAILED}
)
"""A VIF may be attached to an instance in these.

Ironic takes one in every state.  In "active" it connects it at once, in the others when the
node comes back to "active".  In all others the node is on its way, perhaps to another user.
"""

GIVES_INTERFACES: Final = frozenset({AVAILABLE, ACTIVE, DELETING})
"""In these Ironic disconnects a VIF that is detached.

It takes the request in every state, and in all others only forgets which port has the VIF
(39.0.0): what the port is connected to, it stays connected to.
"""

TRANSITIONAL: Final = frozenset(
    {
        VERIFYING,
        DEPLOYING,
        DEPLOY_WAIT,
        DEPLOY_HOLD,
        DELETING,
        CLEANING,
        CLEAN_WAIT,
        CLEAN_HOLD,
        INSPECTING,
        INSPECT_WAIT,
        ADOPTING,
        RESCUING,
        RESCUE_WAIT,
        UNRESCUING,
        SERVICING,
        SERVICE_WAIT,
        SERVICE_HOLD,
    }
)
"""Few nodes are in one of these at a time, so listing them is cheap."""

_UNTOUCHED_STATES: Final = frozenset(
    {ENROLL, MANAGEABLE, AVAILABLE, INSPECT_FAILED, ADOPT_FAILED, CLEAN_FAILED}
)
ALL: Final = (
    TRANSITIONAL | DEPLOYED | _UNTOUCHED_STATES | {DEPLOY_DONE, DEPLOY_FAILED, DELETED, ERROR}
)
"""All provision states that Ironic has."""

GIVEN_BACK: Final = frozenset({DELETING, DELETED, CLEANING, CLEAN_WAIT})
"""Through these a node goes by itself from its last instance to being available."""

# -- verbs of PUT /v1/nodes/{node}/states/provision ---------------------------

VERB_ACTIVE: Final = "active"
VERB_REBUILD: Final = "rebuild"
VERB_RESCUE: Final = "rescue"
VERB_UNRESCUE: Final = "unrescue"
VERB_DELETED: Final = "deleted"
VERB_ABORT: Final = "abort"
VERB_UNHOLD: Final = "unhold"

# -- power states -------------------------------------------------------------

POWER_ON: Final = "power on"
POWER_OFF: Final = "power off"
POWER_ERROR: Final = "error"
REBOOT: Final = "rebooting"
SOFT_REBOOT: Final = "soft rebooting"
SOFT_POWER_OFF: Final = "soft power off"

ALL_POWER: Final = frozenset({POWER_ON, POWER_OFF, POWER_ERROR})
"""What ``power_state`` can be, other than null for "not known yet"."""


class TearDownStep(enum.Enum):
    """What brings a node that carries an instance nearer to carrying none."""

    REQUEST = "ask Ironic to tear it down"
    ABORT = "abort what Ironic is holding, then look again"
    UNHOLD = "let Ironic go on with what it is holding, then look again"
    WAIT = "wait for Ironic to leave the state by itself"
    RELEASE = "nothing is deployed: take our data off the node"


_BUSY_STATES: Final = frozenset(
    {
        DEPLOYING,
        DEPLOY_DONE,
        DELETING,
        DELETED,
        RESCUING,
        UNRESCUING,
        SERVICING,
        VERIFYING,
        CLEANING,
        CLEAN_WAIT,
        CLEAN_HOLD,
        INSPECTING,
        INSPECT_WAIT,
        ADOPTING,
    }
)
_STEPS_TO_A_PATCH: Final = {RESCUE_WAIT: TearDownStep.ABORT, SERVICE_WAIT: TearDownStep.WAIT}
"""What leads out of the states in which Ironic takes the verb "deleted", but no patch.

A rescue system may never call back.  What services a node, its operator has ordered, and not
every step of it can be aborted.
"""


def tear_down_step(provision_state: str, *, patched: bool = False) -> TearDownStep:
    """The next step in tearing down a node that carries an instance.

    :param patched: the node has to be patched before it is torn down.
    :returns: :attr:`TearDownStep.REQUEST` for the states in which Ironic takes the verb
        "deleted", and for one that this table doesn't know: Ironic then decides,
        and nothing is taken off a node that may be in use.
    """
    if provision_state in _UNTOUCHED_STATES:
        return TearDownStep.RELEASE
    if patched and provision_state in _STEPS_TO_A_PATCH:
        return _STEPS_TO_A_PATCH[provision_state]
    if provision_state == SERVICE_HOLD:
        return TearDownStep.ABORT
    if provision_state == DEPLOY_HOLD:
        # An abort would take the instance off without cleaning the node, and
        # strand it in "deploy failed" (39.0.0); what follows the hold can be torn down.
        return TearDownStep.UNHOLD
    if provision_state in _BUSY_STATES:
        return TearDownStep.WAIT
    return TearDownStep.REQUEST
