# SPDX-License-Identifier: Apache-2.0

"""The real Ironic that a benchmark measures against; it has no nodes but the benchmark's.

Each benchmark starts its own.  While one is :func:`kept`, all of them use that
one, and each leaves it empty.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import requests

from benchmarks.registry import Progress
from tools import real_ironic

_VERSION = {"X-OpenStack-Ironic-API-Version": "1.115"}
_SECONDS = 60


class _Kept:
    """An Ironic that starts when a benchmark first needs it."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._ironic: real_ironic.RealIronic | None = None

    def ironic(self, progress: Progress) -> real_ironic.RealIronic:
        if self._ironic is None:
            self._ironic = self._stack.enter_context(real_ironic.RealIronic(progress=progress))
        return self._ironic


_kept: _Kept | None = None


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Let all benchmarks in this block use one Ironic; it is stopped at the end."""
    global _kept
    with contextlib.ExitStack() as stack:
        _kept = _Kept(stack)
        try:
            yield
        finally:
            _kept = None


@contextlib.contextmanager
def without_nodes(progress: Progress) -> Iterator[real_ironic.RealIronic]:
    """A real Ironic without nodes."""
    if _kept is None:
        with real_ironic.RealIronic(progress=progress) as ironic:
            yield ironic
        return
    ironic = _kept.ironic(progress)
    try:
        yield ironic
    finally:
        _remove_nodes(ironic.url)


def send(session: requests.Session, method: str, url: str) -> requests.Response:
    """Send a request without a body to Ironic.

    :raises requests.HTTPError: it was refused.
    """
    answer = session.request(method, url, headers=_VERSION, json={}, timeout=_SECONDS)
    answer.raise_for_status()
    return answer


def _remove_nodes(url: str) -> None:
    """Remove all nodes, page by page."""
    with requests.Session() as session:
        while nodes := send(session, "GET", f"{url}/v1/nodes").json()["nodes"]:
            for node in nodes:
                path = f"{url}/v1/nodes/{node['uuid']}"
                if not node["maintenance"]:
                    # A node with an instance is removed in maintenance only.
                    send(session, "PUT", f"{path}/maintenance")
                send(session, "DELETE", path)
