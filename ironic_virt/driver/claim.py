# SPDX-License-Identifier: Apache-2.0

"""What keeps a patch from every node but the instance's: pure functions.

A request may arrive late, after its sender has given up and the node is another's.  Ironic's
patches have two conditions that keep such a one from having an effect:

* ``instance_uuid`` can't be set where another one is set;
* what is removed has to be there.  So a key of the instance's own is in ``instance_info``
  as long as the node is the instance's, and a patch begins by removing it.  Its name is new for
  each patch: what was asked for the instance before is refused, too.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from ironic_virt.baremetal.node import Node

KEY_PREFIX = "ironic_virt_of_"
"""Of the key of ``instance_info`` that is an instance's own; its uuid follows, and a name."""

_KEY = re.compile(KEY_PREFIX + "([0-9a-f-]{36})_[0-9a-f]{12}")


def own_keys(info: Mapping[str, Any], instance: str) -> list[str]:
    """The keys in a node's ``instance_info`` that are an instance's own: one, or none."""
    return [key for key in info if key.startswith(KEY_PREFIX + instance)]


def find_claimant(info: Mapping[str, Any]) -> str | None:
    """The uuid of the instance whose own key is in a node's ``instance_info``, if it is one's."""
    owners = {match[1] for match in map(_KEY.fullmatch, info) if match}
    return owners.pop() if len(owners) == 1 else None


def claim_patch(node: Node, instance: str) -> list[dict[str, Any]]:
    """The beginning of a patch that Ironic takes only on a node of the instance, or a free one.

    On a node that had the key when it was read, not on a free one either.  With the new name of
    the key, each patch is recognizable on the node even if its reply is lost.

    :param node: as it was read last.
    :param instance: the instance's uuid.
    """
    key = f"{KEY_PREFIX}{instance}_{uuid.uuid4().hex[:12]}"
    return [
        *remove_key(node.instance_info or {}, instance),
        {"op": "add", "path": f"/instance_info/{key}", "value": "1"},
        {"op": "add", "path": "/instance_uuid", "value": instance},
    ]


def remove_key(info: Mapping[str, Any], instance: str) -> list[dict[str, Any]]:
    """The operation that removes an instance's own key; Ironic refuses it where that is missing.

    :param info: the node's ``instance_info``; nodes that were claimed by former versions, or
        reserved by an allocation, have no key before their first patch.
    """
    keys = own_keys(info, instance)
    return [{"op": "remove", "path": f"/instance_info/{key}"} for key in keys]
