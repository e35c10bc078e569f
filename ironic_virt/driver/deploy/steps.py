# SPDX-License-Identifier: Apache-2.0

"""Steps that a flavor wants to be run in a deployment: the extra spec ``ironic:deploy_steps``.

Its value is a JSON list in the form of Ironic's API; ``args`` may be left out.  The priority
decides when a step runs: Ironic writes the image at 80 and boots the instance at 20::

    [{"interface": "bios", "step": "apply_configuration", "priority": 150,
      "args": {"settings": [{"name": "hyperthreading", "value": "on"}]}}]

Nova keeps no more than 255 characters of a value, so further lists may be in
``ironic:deploy_steps1``, ``ironic:deploy_steps2`` and so on; all of them count.

Pure functions.  What steps there are is known only to Ironic, for each node by itself.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ironic_virt import exceptions
from ironic_virt.virt import FlavorLike

EXTRA_SPEC = "ironic:deploy_steps"

INTERFACES = ("bios", "deploy", "firmware", "management", "power", "raid", "vendor")
"""The hardware interfaces that Ironic 39.0.0 takes steps of."""

_NAME = re.compile(rf"{EXTRA_SPEC}(?P<number>\d*)")
_MEMBERS = frozenset({"interface", "step", "args", "priority"})


def read_steps(flavor: FlavorLike) -> list[dict[str, Any]]:
    """The steps that a flavor asks for, as Ironic takes them.

    :raises InvalidExtraSpec: they are in no form that Ironic takes.
    """
    named = [
        (int(match["number"] or 0), name)
        for name in flavor.extra_specs
        if (match := _NAME.fullmatch(name))
    ]
    return [step for _, name in sorted(named) for step in _steps(flavor, name)]


def _steps(flavor: FlavorLike, name: str) -> list[dict[str, Any]]:
    """The steps in one extra spec."""
    text = flavor.extra_specs[name]

    def wrong(expected: str) -> exceptions.InvalidExtraSpec:
        return exceptions.InvalidExtraSpec(f"flavor {flavor.name}", name, text, expected)

    try:
        steps = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise wrong(f"a list in JSON ({exc})") from exc
    if not isinstance(steps, list):
        raise wrong("a list in JSON")
    complete_steps = []
    for number, step in enumerate(steps, start=1):
        if reason := _why_not(step):
            raise wrong(f"a list of deploy steps; of number {number} {reason}")
        complete_steps.append({"args": {}, **step})
    return complete_steps


def _why_not(step: Any) -> str | None:
    """Why Ironic would not take a step."""
    if not isinstance(step, dict):
        return "no object is there"
    if unknown := sorted(step.keys() - _MEMBERS):
        return f"there is no {unknown[0]!r}"
    if step.get("interface") not in INTERFACES:
        return f"the interface must be one of {', '.join(INTERFACES)}"
    if not isinstance(step.get("step"), str) or not step["step"]:
        return "the step must be a name"
    if not isinstance(step.get("args", {}), dict):
        return "args must be an object"
    priority = step.get("priority")
    if isinstance(priority, bool) or not isinstance(priority, int) or priority < 0:
        return "the priority must be a whole number from 0"
    return None
