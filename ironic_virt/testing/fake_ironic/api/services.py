# SPDX-License-Identifier: Apache-2.0

"""Conductors, drivers, shards, and the version documents."""

from typing import Any

from ironic_virt.testing.fake_ironic import checks, errors, versions
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


def _render_conductor(request: Request, row: Conductor, detail: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"hostname": row.hostname, "conductor_group": row.group}
    if detail:
        now = request.bm.store.timestamp()
        body.update(created_at=now, updated_at=now, drivers=list(row.drivers))
    body["links"] = request.links("conductors", row.hostname)
    body["alive"] = row.alive
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
            "marker": checks.string,
            "limit": checks.integer,
            "sort_key": checks.string,
            "sort_dir": checks.string,
        }
    )
    fields = given["fields"]
    rows = [
        _render_conductor(request, row, bool(given["detail"] or fields))
        for row in request.bm.settings.conductors
    ]
    if fields:
        rows = [{k: v for k, v in row.items() if k in fields or k == "links"} for row in rows]
    return Answer(body={"conductors": rows})


def show_conductor(request: Request, hostname: str) -> Answer:
    _require_conductors(request)
    for row in request.bm.settings.conductors:
        if row.hostname == hostname:
            return Answer(body=_render_conductor(request, row, True))
    raise errors.not_found(f"Conductor {hostname} could not be found.")


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
    found = {} if given["type"] == "classic" else _drivers(request)
    rows = [
        _render_driver(request, name, hosts, bool(given["detail"]))
        for name, hosts in found.items()
    ]
    return Answer(body={"drivers": rows})


def show_driver(request: Request, name: str) -> Answer:
    found = _drivers(request)
    if name not in found:
        raise errors.not_found(
            f"Could not find the following driver(s) or hardware type(s): {name}."
        )
    return Answer(body=_render_driver(request, name, found[name], True))


# Shards


def list_shards(request: Request) -> Answer:
    request.require(versions.SHARD, errors.not_found("The API version does not allow shards"))
    counts = request.bm.store.shards()
    body = [{"name": name, "count": count} for name, count in counts.items()]
    return Answer(body={"shards": body})


def show_shard(request: Request, name: str) -> Answer:
    request.require(versions.SHARD, errors.not_found("The API version does not allow shards"))
    raise errors.not_found("The resource could not be found.")


def list_chassis(request: Request) -> Answer:
    """There are none."""
    return Answer(body={"chassis": []})


ROUTES = (
    ("/chassis", {"GET": list_chassis}),
    ("/shards/<name>", {"GET": show_shard}),
    ("/conductors", {"GET": list_conductors}),
    ("/conductors/<hostname>", {"GET": show_conductor}),
    ("/drivers", {"GET": list_drivers}),
    ("/drivers/<name>", {"GET": show_driver}),
    ("/shards", {"GET": list_shards}),
)
