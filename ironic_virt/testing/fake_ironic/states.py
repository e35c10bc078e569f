# SPDX-License-Identifier: Apache-2.0

"""Ironic's provision states, which event leads where, and which verb is which.

Only facts (Ironic 39.0.0); what a transition does to a node is in
``provisioning.py``.
"""

ENROLL = "enroll"
VERIFYING = "verifying"
MANAGEABLE = "manageable"
AVAILABLE = "available"
ACTIVE = "active"
DEPLOYING = "deploying"
DEPLOYWAIT = "wait call-back"
DEPLOYFAIL = "deploy failed"
DEPLOYHOLD = "deploy hold"
DELETING = "deleting"
CLEANING = "cleaning"
CLEANWAIT = "clean wait"
CLEANFAIL = "clean failed"
CLEANHOLD = "clean hold"
ERROR = "error"
INSPECTING = "inspecting"
INSPECTWAIT = "inspect wait"
INSPECTFAIL = "inspect failed"
ADOPTING = "adopting"
ADOPTFAIL = "adopt failed"
RESCUE = "rescue"
RESCUING = "rescuing"
RESCUEWAIT = "rescue wait"
RESCUEFAIL = "rescue failed"
UNRESCUING = "unrescuing"
UNRESCUEFAIL = "unrescue failed"
SERVICING = "servicing"
SERVICEWAIT = "service wait"
SERVICEFAIL = "service failed"
SERVICEHOLD = "service hold"

POWER_ON = "power on"
POWER_OFF = "power off"
REBOOT = "rebooting"
SOFT_REBOOT = "soft rebooting"
SOFT_POWER_OFF = "soft power off"
POWER_TARGETS = (POWER_ON, POWER_OFF, REBOOT, SOFT_REBOOT, SOFT_POWER_OFF)

ALLOCATING = "allocating"

#: What a client PUTs as target, and the event that it stands for.
VERBS = {
    "active": "deploy",
    "deploy": "deploy",
    "deleted": "delete",
    "undeploy": "delete",
    "manage": "manage",
    "provide": "provide",
    "inspect": "inspect",
    "abort": "abort",
    "clean": "clean",
    "adopt": "adopt",
    "rescue": "rescue",
    "unrescue": "unrescue",
    "unhold": "unhold",
    "service": "service",
}

STABLE = frozenset({ENROLL, MANAGEABLE, AVAILABLE, ACTIVE, ERROR, RESCUE})

UNSTABLE = frozenset(
    {
        DEPLOYING,
        DEPLOYWAIT,
        CLEANING,
        CLEANWAIT,
        VERIFYING,
        DELETING,
        INSPECTING,
        INSPECTWAIT,
        ADOPTING,
        RESCUING,
        RESCUEWAIT,
        UNRESCUING,
        SERVICING,
        SERVICEWAIT,
    }
)

#: Transitional states in which PATCH is allowed all the same.
UPDATE_ALLOWED = frozenset(
    {
        DEPLOYFAIL,
        INSPECTING,
        INSPECTFAIL,
        INSPECTWAIT,
        CLEANFAIL,
        ERROR,
        VERIFYING,
        ADOPTFAIL,
        RESCUEFAIL,
        UNRESCUEFAIL,
        "service",
        SERVICEHOLD,
        SERVICEFAIL,
    }
)

#: In Ironic's order, for its message.
DELETE_ALLOWED = (MANAGEABLE, ENROLL, ADOPTFAIL, AVAILABLE)

FAILURES = frozenset(
    {DEPLOYFAIL, CLEANFAIL, INSPECTFAIL, RESCUEFAIL, UNRESCUEFAIL, ADOPTFAIL, SERVICEFAIL}
)

#: Where a node in a transitional state is going.
TARGETS = {
    VERIFYING: MANAGEABLE,
    DEPLOYING: ACTIVE,
    DEPLOYWAIT: ACTIVE,
    DEPLOYFAIL: ACTIVE,
    DEPLOYHOLD: ACTIVE,
    CLEANING: AVAILABLE,
    CLEANWAIT: AVAILABLE,
    CLEANFAIL: AVAILABLE,
    CLEANHOLD: AVAILABLE,
    DELETING: AVAILABLE,
    INSPECTING: MANAGEABLE,
    INSPECTWAIT: MANAGEABLE,
    INSPECTFAIL: MANAGEABLE,
    ADOPTING: ACTIVE,
    ADOPTFAIL: ACTIVE,
    RESCUING: RESCUE,
    RESCUEWAIT: RESCUE,
    RESCUEFAIL: RESCUE,
    UNRESCUING: ACTIVE,
    UNRESCUEFAIL: ACTIVE,
    SERVICING: ACTIVE,
    SERVICEWAIT: ACTIVE,
    SERVICEFAIL: ACTIVE,
    SERVICEHOLD: ACTIVE,
}

ALL_STATES = STABLE | frozenset(TARGETS)

#: state -> event -> next state
TRANSITIONS: dict[str, dict[str, str]] = {
    ENROLL: {"manage": VERIFYING},
    VERIFYING: {"done": MANAGEABLE, "fail": ENROLL},
    MANAGEABLE: {
        "provide": CLEANING,
        "clean": CLEANING,
        "inspect": INSPECTING,
        "adopt": ADOPTING,
    },
    AVAILABLE: {"deploy": DEPLOYING, "manage": MANAGEABLE},
    DEPLOYING: {"fail": DEPLOYFAIL, "wait": DEPLOYWAIT, "hold": DEPLOYHOLD, "done": ACTIVE},
    DEPLOYWAIT: {
        "hold": DEPLOYHOLD,
        "resume": DEPLOYING,
        "fail": DEPLOYFAIL,
        "abort": DEPLOYFAIL,
        "delete": DELETING,
    },
    DEPLOYHOLD: {"unhold": DEPLOYWAIT, "abort": DEPLOYFAIL},
    DEPLOYFAIL: {"rebuild": DEPLOYING, "deploy": DEPLOYING, "delete": DELETING},
    ACTIVE: {
        "rebuild": DEPLOYING,
        "delete": DELETING,
        "rescue": RESCUING,
        "service": SERVICING,
    },
    DELETING: {"fail": ERROR, "clean": CLEANING},
    ERROR: {"rebuild": DEPLOYING, "delete": DELETING},
    CLEANING: {
        "done": AVAILABLE,
        "fail": CLEANFAIL,
        "wait": CLEANWAIT,
        "hold": CLEANHOLD,
        "manage": MANAGEABLE,
    },
    CLEANWAIT: {"fail": CLEANFAIL, "abort": CLEANFAIL, "hold": CLEANHOLD, "resume": CLEANING},
    CLEANHOLD: {"abort": CLEANFAIL, "unhold": CLEANWAIT},
    CLEANFAIL: {"manage": MANAGEABLE},
    INSPECTING: {"done": MANAGEABLE, "fail": INSPECTFAIL, "wait": INSPECTWAIT},
    INSPECTWAIT: {
        "done": MANAGEABLE,
        "fail": INSPECTFAIL,
        "abort": INSPECTFAIL,
        "resume": INSPECTING,
    },
    INSPECTFAIL: {"manage": MANAGEABLE, "inspect": INSPECTING},
    ADOPTING: {"done": ACTIVE, "fail": ADOPTFAIL},
    ADOPTFAIL: {"adopt": ADOPTING, "manage": MANAGEABLE},
    RESCUING: {"done": RESCUE, "wait": RESCUEWAIT, "fail": RESCUEFAIL},
    RESCUEWAIT: {
        "resume": RESCUING,
        "fail": RESCUEFAIL,
        "abort": RESCUEFAIL,
        "delete": DELETING,
    },
    RESCUE: {"rescue": RESCUING, "delete": DELETING, "unrescue": UNRESCUING},
    RESCUEFAIL: {"rescue": RESCUING, "unrescue": UNRESCUING, "delete": DELETING},
    UNRESCUING: {"done": ACTIVE, "fail": UNRESCUEFAIL},
    UNRESCUEFAIL: {"rescue": RESCUING, "unrescue": UNRESCUING, "delete": DELETING},
    SERVICING: {
        "done": ACTIVE,
        "fail": SERVICEFAIL,
        "wait": SERVICEWAIT,
        "hold": SERVICEHOLD,
    },
    SERVICEWAIT: {
        "hold": SERVICEHOLD,
        "resume": SERVICING,
        "fail": SERVICEFAIL,
        "abort": SERVICEFAIL,
        "delete": DELETING,
    },
    SERVICEHOLD: {
        "service": SERVICING,
        "unhold": SERVICEWAIT,
        "fail": SERVICEFAIL,
        "abort": SERVICEFAIL,
    },
    SERVICEFAIL: {
        "service": SERVICING,
        "rescue": RESCUING,
        "wait": SERVICEWAIT,
        "hold": SERVICEHOLD,
        "delete": DELETING,
        "abort": ACTIVE,
    },
}


def is_possible(state: str, event: str) -> bool:
    """Whether ``event`` means anything to a node in ``state``."""
    return event in TRANSITIONS.get(state, {})
