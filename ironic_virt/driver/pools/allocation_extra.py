# SPDX-License-Identifier: Apache-2.0

"""What is noted in an allocation's ``extra``: the compute service, and the request.

Operators see by it in Ironic what a reservation is for, and this driver sees which
allocations it made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ironic_virt.request.spec import image_properties
from ironic_virt.virt import ImageLike, InstanceLike

KEY = "ironic_virt"
"""The key in ``extra`` that makes an allocation ours."""


def make_notes(instance: InstanceLike, image: ImageLike | None, host: str) -> dict[str, Any]:
    """An allocation's ``extra``: all fields of the request.

    :param host: this compute service.
    """
    flavor = instance.flavor
    return {
        KEY: {
            "host": host,
            "instance_name": instance.display_name or instance.name,
            "project_id": instance.project_id,
            "user_id": instance.user_id,
            "flavor": flavor.name,
            "memory_mb": flavor.memory_mb,
            "vcpus": flavor.vcpus,
            "root_gb": flavor.root_gb,
            "ephemeral_gb": flavor.ephemeral_gb,
            "swap": flavor.swap,
            "extra_specs": {key: str(value) for key, value in flavor.extra_specs.items()},
            "image": _image(image),
        }
    }


def host_of(extra: Mapping[str, Any] | None) -> str | None:
    """The compute service that made an allocation; ``None``: something else made it."""
    ours = (extra or {}).get(KEY)
    host = ours.get("host") if isinstance(ours, dict) else None
    return host if isinstance(host, str) else None


def _image(image: ImageLike | None) -> dict[str, Any] | None:
    if image is None:
        return None
    properties = image_properties(image)
    return {
        "id": without_credentials(image.id),
        "properties": {str(key): _plain(value) for key, value in properties.items()},
    }


def without_credentials(location: str | None) -> str | None:
    """An image's id; of a URL neither who may read it nor a signature."""
    if location is None or "://" not in location:
        return location
    # A property may have any text: not all of it is a URL that Python can take apart.
    scheme, _, rest = location.partition("://")
    place, *more = re.split("[?#]", rest, maxsplit=1)
    # With an @ in what follows it may be the beginning of a password.
    shown = "" if "@" in "".join(more) else place.rpartition("@")[2]
    return f"{scheme}://{shown}"


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, bool | int | float | str):
        return without_credentials(value) if isinstance(value, str) else value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    return str(value)
