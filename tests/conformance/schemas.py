# SPDX-License-Identifier: Apache-2.0

"""Checks answers against the JSON schemas that Ironic ships; runs in Ironic's environment.

Reads one answer a line from the standard input, a list in JSON: method, path, minor version,
body.  Prints how many it has checked, by route, and what doesn't fit, as JSON.
"""

import collections
import json
import re
import sys
from urllib.parse import urlsplit

from ironic.api.controllers.v1 import (
    allocation,
    chassis,
    conductor,
    driver,
    portgroup,
    shard,
    volume,
    volume_connector,
    volume_target,
)
from ironic.api.validation import validators

_ROUTES = [
    ("GET", "/shards", shard.ShardController.get_all),
    ("GET", "/volume", volume.VolumeController.get),
    ("GET", "/drivers/[^/]+/properties", driver.DriversController.properties),
]
for _path, _resource in {
    "/allocations": allocation.AllocationsController,
    "/chassis": chassis.ChassisController,
    "/conductors": conductor.ConductorsController,
    "/drivers": driver.DriversController,
    "/portgroups": portgroup.PortgroupsController,
    "/volume/connectors": volume_connector.VolumeConnectorsController,
    "/volume/targets": volume_target.VolumeTargetsController,
}.items():
    for _method, _name, _rest in (
        ("GET", "detail", "/detail"),
        ("GET", "get_all", ""),
        ("GET", "get_one", "/[^/]+"),
        ("POST", "post", ""),
        ("PATCH", "patch", "/[^/]+"),
    ):
        if hasattr(_resource, _name):
            _ROUTES.append((_method, _path + _rest, getattr(_resource, _name)))


def _schema(method: str, path: str, minor: int) -> tuple[str, object]:
    """The name of a route, and its schema in a version; ``None`` if there is none."""
    for wanted, pattern, function in _ROUTES:
        if method == wanted and re.fullmatch(f"/v1{pattern}(\\.json)?/?", path):
            for schema, first, last in function.response_body_schemas._schemas:
                if (first or 0) <= minor <= (last or minor):
                    return f"{method} {pattern}", schema
    return "", None


def main() -> None:
    """Check what comes."""
    checked: collections.Counter[str] = collections.Counter()
    wrong = []
    for line in sys.stdin:
        method, path, minor, body = json.loads(line)
        route, schema = _schema(method, urlsplit(path).path, minor)
        if schema is None:
            continue
        checked[route] += 1
        try:
            validators.SchemaValidator(schema, is_body=True).validate(body)
        except Exception as error:
            wrong.append(f"{method} {path} at 1.{minor}: {error}")
    json.dump({"checked": checked, "wrong": wrong}, sys.stdout)


main()
