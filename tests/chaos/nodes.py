# SPDX-License-Identifier: Apache-2.0

"""What Ironic has, asked past the proxy."""

from collections.abc import Mapping
from typing import Any

import requests

_SECONDS = 60.0
_VERSION = {"X-OpenStack-Ironic-API-Version": "latest"}
_TRACES = (
    *("provision_state", "instance_uuid", "instance_info", "instance_name", "maintenance"),
    *("reservation", "allocation_uuid", "lessee", "owner"),
)

_WITH_LOCK = ("deploying", "cleaning", "deleting", "rescuing", "unrescuing")


class Nodes:
    """The nodes of an Ironic.

    :param url: its root.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.headers.update(_VERSION)

    def _get(self, path: str) -> Any:
        answer = self._session.get(f"{self._url}/v1{path}", timeout=_SECONDS)
        answer.raise_for_status()
        return answer.json()

    def all(self) -> list[dict[str, Any]]:
        """Everything of every node."""
        found: list[dict[str, Any]] = self._get("/nodes?detail=true")["nodes"]
        return found

    def of(self, instance: str) -> dict[str, Any] | None:
        """The node that has an instance."""
        found = self._get(f"/nodes?detail=true&instance_uuid={instance}")["nodes"]
        return found[0] if found else None

    def traces(self) -> Mapping[str, Mapping[str, Any]]:
        """All that an instance may leave on a node, by the node's uuid."""
        return {
            node["uuid"]: {key: node[key] for key in _TRACES}
            | {"vifs": self._get(f"/nodes/{node['uuid']}/vifs")["vifs"]}
            for node in self.all()
        }

    def allocations(self) -> list[str]:
        """The uuids of all."""
        return [one["uuid"] for one in self._get("/allocations")["allocations"]]

    @property
    def are_at_rest(self) -> bool:
        """Whether nobody works on any of them."""
        return all(_is_at_rest(node) for node in self.all())

    def stuck(self) -> Mapping[str, str]:
        """The nodes that are left in the midst of something, and the conductor of each.

        Nobody works on them, as there is no lock: Ironic fails what a dead conductor has left
        behind, in most states, only when the conductor starts that has the node then.
        """
        return {
            node["uuid"]: node["conductor"]
            for node in self.all()
            if node["reservation"] is None and node["provision_state"] in _WITH_LOCK
        }

    def repair(self) -> None:
        """As an operator: bring back what has failed without a server."""
        for node in self.all():
            if node["instance_uuid"] is None and node["provision_state"] == "clean failed":
                url = f"{self._url}/v1/nodes/{node['uuid']}"
                self._session.delete(f"{url}/maintenance", timeout=_SECONDS)
                for verb in ("manage", "provide"):
                    self._session.put(
                        f"{url}/states/provision", json={"target": verb}, timeout=_SECONDS
                    )


def _is_at_rest(node: Mapping[str, Any]) -> bool:
    # Without a lock a power change that is still shown is one that a stopped conductor has left.
    state = node["provision_state"]
    if node["reservation"] is not None:
        return False
    return state in ("available", "active", "rescue", "error") or "failed" in state
