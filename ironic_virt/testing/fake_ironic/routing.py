# SPDX-License-Identifier: Apache-2.0

"""From a URL to a handler."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import werkzeug.exceptions
import werkzeug.routing

from ironic_virt.testing.fake_ironic import errors, versions
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
_SLASHES = re.compile(r"(?<=.)//+")

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


def without_suffix(path: str, version: str) -> tuple[str, str]:
    """The path without ``.json``, as versions up to 1.90 take it; what was taken off.

    :param version: as it was asked for: none at all takes nothing off.
    """
    stripped = path.rstrip("/")
    minor = version.partition(".")[2]
    if stripped.endswith(".json") and minor.isdigit() and int(minor) < versions.DOT_JSON:
        return stripped.removesuffix(".json"), ".json"
    return path, ""


#: What refuses all arguments in the query, other than by :meth:`Request.arguments`: how Ironic
#: 39.0.0 calls the method that trips over them; empty where it looks at them itself.
_WITHOUT_ARGUMENTS: dict[str, str] = {
    "GET /": "Controller.index",
    "GET /nodes/<ident>/states": "",
    "GET /nodes/<ident>/states/console": "",
    "GET /nodes/<ident>/vifs": "NodeVIFController.get_all",
    "GET /nodes/<ident>/traits": "NodeTraitsController.get_all",
    "GET /nodes/<ident>/validate": "",
    "GET /nodes/<ident>/inventory": "",
    "GET /nodes/<ident>/children": "NodeChildrenController.get_all",
    "GET /nodes/<ident>/volume": "VolumeController.get",
    "GET /nodes/<ident>/bios": "",
    "GET /nodes/<ident>/firmware": "",
    "GET /nodes/<ident>/management/boot_device": "",
    "GET /nodes/<ident>/management/boot_device/supported": "",
    "GET /volume": "VolumeController.get",
    "GET /drivers/<name>": "",
    "POST /nodes": "",
    "POST /ports": "",
    "POST /portgroups": "",
    "POST /chassis": "",
    "POST /volume/<kind_name>": "",
    "POST /allocations": "AllocationsController.post",
    "POST /nodes/<ident>/vifs": "",
    "PATCH /ports/<port_ident>": "",
    "PATCH /chassis/<uuid>": "",
    "PATCH /volume/<kind_name>/<uuid>": "",
    "PUT /nodes/<ident>/traits": "",
    "PUT /nodes/<ident>/traits/<trait>": "",
    "DELETE /nodes/<ident>": "",
    "DELETE /nodes/<ident>/maintenance": "",
    "DELETE /nodes/<ident>/traits": "",
    "DELETE /nodes/<ident>/traits/<trait>": "",
    "DELETE /nodes/<ident>/vifs/<vif>": "",
    "DELETE /ports/<port_ident>": "",
    "DELETE /chassis/<uuid>": "",
    "DELETE /portgroups/<group>": "PortgroupsController.delete",
    "DELETE /allocations/<ident>": "AllocationsController.delete",
    "DELETE /volume/<kind_name>/<uuid>": "",
}


def _check_arguments(route: str, names: Sequence[str]) -> None:
    """Refuse arguments where none are taken.

    :raises ApiError: 400, or 500 where Ironic trips over them.
    """
    method = _WITHOUT_ARGUMENTS.get(route)
    if method is None or not names:
        return
    if method:
        raise errors.ApiError(500, f"{method}() got an unexpected keyword argument '{names[0]}'")
    raise errors.invalid(f"Unexpected arguments: {', '.join(names)}")


def find_handler(
    method: str, path: str, names: Sequence[str] = ()
) -> tuple[Handler, dict[str, Any]]:
    """The handler for a request, and the parts of the URL to call it with.

    Like Ironic, ``/nodes`` is taken for ``/v1/nodes``.

    :param names: of the arguments in the query, and of those that a body is taken for.
    :raises RoutingError: 404 or 405; 400 if the path is not UTF-8.
    :raises ApiError: there are arguments where none are taken.
    """
    if "\N{REPLACEMENT CHARACTER}" in path:
        raise errors.RoutingError(400)
    if path in ("", "/"):
        if method not in ("GET", "HEAD", "OPTIONS"):
            raise errors.RoutingError(405)
        if names:
            message = f"RootController.index() got an unexpected keyword argument '{names[0]}'"
            raise errors.RoutingError(500, message)
        return services.show_root, {}
    if path == "/v1" or path.startswith("/v1/"):
        path = path[3:]
    path = _SLASHES.sub("/", path.rstrip("/")) or "/"
    try:
        endpoint, arguments = _MAP.bind("").match(path, method)
    except werkzeug.exceptions.MethodNotAllowed:
        raise errors.RoutingError(405, allow=_allowed(path)) from None
    except (werkzeug.exceptions.NotFound, werkzeug.routing.RequestRedirect):
        raise errors.RoutingError(404) from None
    if method == "HEAD" and path != "/":
        raise errors.RoutingError(405, allow=[])
    _check_arguments(f"{method} {endpoint}", names)
    methods = _TABLE[endpoint]
    return methods["GET" if method == "HEAD" else method], dict(arguments)
