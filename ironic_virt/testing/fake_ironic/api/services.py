# SPDX-License-Identifier: Apache-2.0

"""Conductors, drivers, shards, and the version documents."""

from typing import Any
from urllib.parse import parse_qsl

from ironic_virt.testing.fake_ironic import checks, errors, paging, versions
from ironic_virt.testing.fake_ironic.settings import INTERFACES, Conductor
from ironic_virt.testing.fake_ironic.web import Answer, Request

# Version documents


def _version(request: Request) -> dict[str, Any]:
    settings = request.bm.settings
    return {
        "id": "v1",
        "links": [{"href": f"{request.url}/v1/", "rel": "self"}],
        "status": "CURRENT",
        "min_version": versions.text(settings.min_version),
        "version": versions.text(settings.max_version),
    }


def show_root(request: Request) -> Answer:
    version = _version(request)
    return Answer(
        body={
            "name": "OpenStack Ironic API",
            "description": "Ironic is an OpenStack project which enables the provision and"
            " management of baremetal machines.",
            "default_version": version,
            "versions": [version],
        }
    )


def show_v1(request: Request) -> Answer:
    guide = "https://docs.openstack.org//ironic/latest/contributor//webapi.html"
    body: dict[str, Any] = {
        "id": "v1",
        "links": [
            {"href": f"{request.url}/v1/", "rel": "self"},
            {"href": guide, "rel": "describedby", "type": "text/html"},
        ],
        "media_types": {
            "base": "application/json",
            "type": "application/vnd.openstack.ironic.v1+json",
        },
    }
    for name in ("chassis", "nodes", "ports", "drivers"):
        body[name] = request.links(name, "")
    body["version"] = _version(request)
    for name, since in versions.COLLECTIONS.items():
        if request.minor >= since:
            body[name] = request.links(name, "")
    return Answer(body=body)


# Conductors

_CONDUCTOR_FIELDS = (
    "alive",
    "conductor_group",
    "created_at",
    "drivers",
    "hostname",
    "links",
    "updated_at",
)


def _render_conductor(
    request: Request, row: Conductor, fields: list[str] | None
) -> dict[str, Any]:
    timestamp = request.bm.store.timestamp()
    body: dict[str, Any] = {
        "created_at": timestamp,
        "updated_at": timestamp,
        "hostname": row.hostname,
        "conductor_group": row.group,
        "drivers": list(row.drivers),
        "alive": row.alive,
    }
    if fields is not None:
        body = {name: value for name, value in body.items() if name in fields}
    body["links"] = request.links("conductors", row.hostname)
    return body


def _require_conductors(request: Request) -> None:
    unsupported = errors.not_found("The API is not supported for this version")
    request.require(versions.CONDUCTORS, unsupported)


def list_conductors(request: Request) -> Answer:
    _require_conductors(request)
    given = request.arguments(
        {
            "detail": checks.boolean,
            "fields": checks.string_list,
            **checks.PAGING,
            "marker": checks.string,
        }
    )
    fields, detail = given["fields"], given["detail"]
    checks.check_selection(fields, _CONDUCTOR_FIELDS)
    if fields is not None and detail:
        raise errors.invalid("Can not specify ?detail=True and fields in the same request.")
    if fields is None and not detail:
        fields = ["hostname", "conductor_group", "alive"]
    window = paging.Window.requested(request, given)
    paging.check_sortable(window.sort_key, ("alive", "drivers"))
    rows = list(request.bm.settings.conductors)
    if window.sort_key in ("hostname", "conductor_group"):
        rows.sort(key=lambda row: row.hostname if window.sort_key == "hostname" else row.group)
    if window.descends:
        rows.reverse()
    if given["marker"]:
        names = [row.hostname for row in rows]
        if given["marker"] not in names:
            raise _no_conductor(given["marker"])
        rows = rows[names.index(given["marker"]) + 1 :]
    rows = rows[: window.limit]
    extra = {} if detail is None else {"detail": detail}
    return paging.collection(
        request,
        "conductors",
        [_render_conductor(request, row, fields) for row in rows],
        [row.hostname for row in rows],
        window,
        fields=fields,
        **extra,
    )


def _no_conductor(hostname: str) -> errors.ApiError:
    return errors.not_found(f"Conductor {hostname} could not be found.")


def show_conductor(request: Request, hostname: str) -> Answer:
    _require_conductors(request)
    fields = request.arguments({"fields": checks.string_list})["fields"]
    checks.check_selection(fields, _CONDUCTOR_FIELDS)
    for row in request.bm.settings.conductors:
        if row.hostname == hostname:
            return Answer(body=_render_conductor(request, row, fields))
    raise _no_conductor(hostname)


# Drivers


def _drivers(request: Request) -> dict[str, list[str]]:
    hosts: dict[str, list[str]] = {}
    for conductor in request.bm.settings.conductors:
        for driver in conductor.drivers if conductor.alive else ():
            hosts.setdefault(driver, []).append(conductor.hostname)
    return hosts


def _render_driver(request: Request, name: str, hosts: list[str], detail: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": name,
        "hosts": hosts,
        "links": request.links("drivers", name),
    }
    if request.minor >= versions.STATE_LINKS:
        body["properties"] = request.links("drivers", f"{name}/properties")
    if request.minor >= versions.DYNAMIC_DRIVERS:
        body["type"] = "dynamic"
    if detail and request.minor >= versions.DYNAMIC_DRIVERS:
        for kind, enabled in INTERFACES.items():
            if versions.NODE_FIELDS[f"{kind}_interface"] <= request.minor:
                body[f"default_{kind}_interface"] = enabled[0]
                body[f"enabled_{kind}_interfaces"] = list(enabled)
        if "default_network_interface" in body:
            body["default_network_interface"] = request.bm.settings.network_interface
    return body


def list_drivers(request: Request) -> Answer:
    given = request.arguments(
        {"type": checks.string, "detail": checks.boolean, "fields": checks.string_list}
    )
    for name in ("type", "detail"):
        if given[name] is not None and request.minor < versions.DYNAMIC_DRIVERS:
            raise errors.needs_version(versions.DYNAMIC_DRIVERS)
    if given["type"] not in (None, "classic", "dynamic"):
        raise errors.invalid('"type" filter must be one of "classic" or "dynamic", if specified.')
    drivers = {} if given["type"] == "classic" else _drivers(request)
    rows = [
        _render_driver(request, name, hosts, bool(given["detail"]))
        for name, hosts in drivers.items()
    ]
    return Answer(body={"drivers": rows})


def show_driver(request: Request, name: str) -> Answer:
    drivers = _drivers(request)
    if name not in drivers:
        raise errors.not_found(
            f"Could not find the following driver(s) or hardware type(s): {name}."
        )
    return Answer(body=_render_driver(request, name, drivers[name], True))


def show_driver_properties(request: Request, name: str) -> Answer:
    if name not in _drivers(request):
        raise errors.not_found(f"The driver '{name}' is unknown.")
    return Answer(body={f"B{n}": f"B{n} description. Required." for n in (1, 2)})


# Shards


def list_shards(request: Request) -> Answer:
    request.require(versions.SHARD, errors.not_found("The API version does not allow shards"))
    for name in dict(parse_qsl(request.query, keep_blank_values=True)):
        raise errors.ApiError(
            500, f"ShardController.get_all() got an unexpected keyword argument '{name}'"
        )
    counts = request.bm.store.shards()
    # Among as many, nodes in no shard come first, as NULL does.
    order = sorted(counts, key=lambda name: (-counts[name], name != "None", name))
    body = [{"name": name, "count": counts[name]} for name in order]
    return Answer(body={"shards": body})


def show_shard(request: Request, name: str) -> Answer:
    request.require(versions.SHARD, errors.not_found("The API version does not allow shards"))
    raise errors.not_found("The resource could not be found.")


ROUTES = (
    ("/shards/<name>", {"GET": show_shard}),
    ("/conductors", {"GET": list_conductors}),
    ("/conductors/<hostname>", {"GET": show_conductor}),
    ("/drivers", {"GET": list_drivers}),
    ("/drivers/<name>", {"GET": show_driver}),
    ("/drivers/<name>/properties", {"GET": show_driver_properties}),
    ("/shards", {"GET": list_shards}),
)
