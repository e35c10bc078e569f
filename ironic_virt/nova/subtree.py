# SPDX-License-Identifier: Apache-2.0

"""Nova's report client for one node at a time, as Nova 34 has it by itself.

Up to Nova 33 the resource tracker gets a copy of the providers of *all* nodes for each node, and
compares all of them when it writes one.  With N nodes that is N² a period.  The client here
stands at ``rt.reportclient`` and hands out the providers of one node.  All else, and all that is
sent to Placement, is done by Nova's own client, whose private parts this module uses.
"""

from __future__ import annotations

import copy
import types
from typing import Any

from nova.compute import provider_tree
from nova.scheduler.client import report

NEEDED = not hasattr(report.SchedulerReportClient, "get_provider_subtree_and_ensure_root")
"""Whether this Nova lacks it."""


class NodeReportClient:
    """Nova's report client, but for the two methods that take or return a whole tree."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_provider_tree_and_ensure_root(
        self,
        context: Any,
        rp_uuid: str,
        name: str | None = None,
        parent_provider_uuid: str | None = None,
    ) -> Any:
        """Return a copy of a provider and those below it, which Placement has from now on."""
        client = self._client
        client._ensure_resource_provider(
            context, rp_uuid, name=name, parent_provider_uuid=parent_provider_uuid
        )
        with client._provider_tree.lock:
            root = copy.deepcopy(client._provider_tree._find_with_lock(rp_uuid))
        tree = provider_tree.ProviderTree()
        tree.roots_by_uuid[root.uuid] = tree.roots_by_name[root.name] = root
        return tree

    def update_from_provider_tree(
        self, context: Any, new_tree: Any, allocations: Any = None
    ) -> None:
        """Write what differs; Nova's errors pass.

        A reshape, or providers that come or go, are compared with all others, as Nova does it.
        """
        client = self._client
        (root,) = new_tree.roots
        uuids, tree = new_tree.get_provider_uuids(), client._provider_tree
        known = tree.get_provider_uuids(root.uuid) if tree.exists(root.uuid) else []
        if allocations is None and uuids == known:
            update = type(client).update_from_provider_tree
            update(_OneTree(client, uuids), context, new_tree)
            return
        whole = copy.deepcopy(tree)
        whole.roots_by_uuid[root.uuid] = whole.roots_by_name[root.name] = root
        client.update_from_provider_tree(context, whole, allocations=allocations)


class _OneTree:
    """The client as Nova's ``update_from_provider_tree`` sees it: with a node's providers."""

    def __init__(self, client: Any, uuids: list[str]) -> None:
        self._client = client
        # What is read of a tree where nothing is reshaped.
        self._provider_tree = types.SimpleNamespace(get_provider_uuids=lambda: uuids)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)
