# SPDX-License-Identifier: Apache-2.0

"""Let fake hardware fail, and take an NMI, where a node's ``driver_info`` says so; hold it.

``{"fails": {"deploy": "the disk is gone"}}``: each step that is named there fails with that
text until it is taken out again.  ``{"takes_nmi": true}``: the node can be sent an NMI,
which is written into its history.  Of all other nodes the hardware is as Ironic has it.

What has the delay :data:`HELD` goes on for as long as a file of that name is in Ironic's state
directory, and then next to it one that is called :data:`REACHED`.

Runs with the Python of Ironic's virtualenv.
"""

import functools
import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HELD = "held"
REACHED = "held-hardware-is-reached"
_POLL_SECONDS = 0.02

_METHODS = {
    "deploy": (("FakeDeploy", "deploy"),),
    "undeploy": (("FakeDeploy", "tear_down"),),
    "rescue": (("FakeRescue", "rescue"),),
    "unrescue": (("FakeRescue", "unrescue"),),
    "power": (("FakePower", "set_power_state"), ("FakePower", "reboot")),
}
"""What can fail, and what Ironic calls for it."""


def extend_fake_hardware() -> None:
    """Must come after Ironic's command is imported, and before it makes its hardware types."""
    fake: Any = importlib.import_module("ironic.drivers.modules.fake")
    for operation, methods in _METHODS.items():
        for kind, name in methods:
            owner = getattr(fake, kind)
            setattr(owner, name, _may_fail(operation, getattr(owner, name)))
    fake.FakeManagement.inject_nmi = _inject_nmi
    fake.sleep = _held_or(fake.sleep)


def _may_fail(operation: str, method: Callable[..., Any]) -> Callable[..., Any]:
    # What marks a method as a step is an attribute of it, and is kept.
    @functools.wraps(method)
    def perform(self: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
        reason = task.node.driver_info.get("fails", {}).get(operation)
        if reason:
            raise importlib.import_module("ironic.common.exception").IronicException(reason)
        return method(self, task, *args, **kwargs)

    return perform


def _held_or(sleep: Callable[[str], None]) -> Callable[[str], None]:
    conf = importlib.import_module("ironic.conf").CONF

    def sleep_or_be_held(delay: str) -> None:
        if delay != HELD:
            sleep(delay)
            return
        directory = Path(conf.state_path)
        while (directory / HELD).exists():
            (directory / REACHED).touch()
            time.sleep(_POLL_SECONDS)

    return sleep_or_be_held


def _inject_nmi(self: Any, task: Any) -> None:
    base = importlib.import_module("ironic.drivers.base")
    if not task.node.driver_info.get("takes_nmi"):
        base.ManagementInterface.inject_nmi(self, task)
    history = importlib.import_module("ironic.conductor.utils").node_history_record
    history(task.node, event="An NMI was injected", event_type="management")
