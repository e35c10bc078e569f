# SPDX-License-Identifier: Apache-2.0

"""From a URL to a handler."""

import re
from collections.abc import Callable
from typing import Any

import werkzeug.exceptions
import werkzeug.routing

from ironic_virt.testing.fake_ironic import errors
from ironic_virt.testing.fake_ironic.api import (
    allocations,
    chassis,
    node_parts,
    node_patch,
    node_states,
    nodes,
    portgroups,
    ports,
    provision,
    services,
    volumes,
)
from ironic_virt.testing.fake_ironic.web import Answer

Handler = Callable[..., Answer]

_MODULES: tuple[Any, ...] = (
    nodes,
    node_patch,
    node_states,
    provision,
    node_parts,
    ports,
    portgroups,
    volumes,
    allocations,
    chassis,
    services,
)


def _table() -> dict[str, dict[str, Handler]]:
    table: dict[str, dict[str, Handler]] = {
        "/": {"GET": services.show_v1},
    }
    for module in _MODULES:
        for name in ("ROUTES", "NODE_ROUTES"):
            for path, methods in getattr(module, name, ()):
                table.setdefault(path, {}).update(methods)
    return table


_TABLE = _table()

_MAP = werkzeug.routing.Map(
    [
        werkzeug.routing.Rule(path, endpoint=path, methods=list(methods))
        for path, methods in _TABLE.items()
    ],
    strict_slashes=False,
    merge_slashes=False,
)


def _allowed(path: str) -> list[str]:
    """The methods of a resource: those of the collection and of its members."""
    adapter = _MAP.bind("")
    endpoint, _ = adapter.match(path, next(iter(adapter.allowed_methods(path))))
    collection = re.sub(r"/<\w+>$", "", endpoint)
    return sorted(
        {
            method
            for other, methods in _TABLE.items()
            if other == endpoint or re.sub(r"/<\w+>$", "", other) == collection
            for method in methods
        }
    )


def find_handler(method: str, path: str) -> tuple[Handler, dict[str, Any]]:
    """The handler for a request, and the parts of the URL to call it with.

    Like Ironic, ``/nodes`` is taken for ``/v1/nodes``.

    :raises RoutingError: 404 or 405.
    """
    if path in ("", "/"):
        if method not in ("GET", "HEAD"):
            raise errors.RoutingError(405)
        return services.show_root, {}
    if path == "/v1" or path.startswith("/v1/"):
        path = path[3:]
    path = path.rstrip("/") or "/"
    try:
        endpoint, arguments = _MAP.bind("").match(path, method)
    except werkzeug.exceptions.MethodNotAllowed:
        raise errors.RoutingError(405, allow=_allowed(path)) from None
    except (werkzeug.exceptions.NotFound, werkzeug.routing.RequestRedirect):
        raise errors.RoutingError(404) from None
    methods = _TABLE[endpoint]
    return methods["GET" if method == "HEAD" else method], dict(arguments)
