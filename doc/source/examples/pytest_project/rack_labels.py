# SPDX-License-Identifier: Apache-2.0

"""Somebody's client of Ironic: it writes into each node in which rack it stands."""

import requests

HEADERS = {"X-OpenStack-Ironic-API-Version": "1.82"}


class RackLabels:
    """Labels in ``extra`` of the nodes of an Ironic.

    :param url: of the API, without the version.
    """

    def __init__(self, url: str) -> None:
        self._nodes = f"{url}/v1/nodes"

    def read(self) -> dict[str, str | None]:
        """The rack of each node, by the node's name.

        :raises requests.RequestException: Ironic can't be asked.
        """
        query = {"fields": "name,extra"}
        answer = requests.get(self._nodes, params=query, headers=HEADERS, timeout=5)
        answer.raise_for_status()
        return {node["name"]: node["extra"].get("rack") for node in answer.json()["nodes"]}

    def write(self, node: str, rack: str) -> None:
        """Label a node.  Once more if the connection breaks: the label is the same.

        :raises requests.RequestException: Ironic refuses, or can't be asked.
        """
        patch = [{"op": "add", "path": "/extra/rack", "value": rack}]
        for last in (False, True):
            try:
                url = f"{self._nodes}/{node}"
                answer = requests.patch(url, json=patch, headers=HEADERS, timeout=5)
            except requests.ConnectionError:
                if last:
                    raise
            else:
                answer.raise_for_status()
                return
