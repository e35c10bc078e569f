# SPDX-License-Identifier: Apache-2.0

"""What is asked for: a flavor, its extra specs and the image's wishes, as one value.

Extra specs have Nova's form.  Those that this package gives a meaning are read
and checked once, here: ``resources:CUSTOM_GOLD=1``, ``trait:CUSTOM_X=required``
and their numbered groups (``resources1:...``), which mean the same, since a node
is one provider.  The rest is left to the filters.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import os_resource_classes

from ironic_virt import exceptions
from ironic_virt.request.sizes import Sizes, of_flavor
from ironic_virt.virt.values import FlavorLike, ImageLike

CUSTOM: str = os_resource_classes.CUSTOM_NAMESPACE
"""How the names of an operator's own resource classes begin in Placement."""

_RESOURCE = re.compile(r"resources[a-zA-Z0-9_-]{0,64}:(?P<name>.+)")
_TRAIT = re.compile(r"trait[a-zA-Z0-9_-]{0,64}:(?P<name>.+)")
_OF_NOVA = ("COMPUTE_", "OWNER_NOVA")


@dataclasses.dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request for instances that are alike.

    :param instance_uuid: the instance; ``None`` where there is none yet.
    :param memory_mb: MiB.
    :param root_gb: GiB, as ``ephemeral_gb`` is; ``swap`` is in MiB.
    :param resources: amounts by resource class in Placement's form.  ``VCPU``,
        ``MEMORY_MB`` and ``DISK_GB`` take the place of the flavor's own sizes.
    :param exclude_nodes: uuids of nodes not to be chosen: they were tried.
    :ivar sizes: what the flavor names.
    :ivar asked: what a node must have; 0: any size will do.
    """

    instance_uuid: str | None = None
    flavor_name: str = ""
    vcpus: int = 0
    memory_mb: int = 0
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap: int = 0
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    image_properties: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    resources: Mapping[str, int] = dataclasses.field(default_factory=dict, hash=False)
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    exclude_nodes: frozenset[str] = frozenset()
    sizes: Sizes = dataclasses.field(init=False, repr=False, compare=False)
    asked: Sizes = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sizes, disk_gb = of_flavor(self), self.resources.get("DISK_GB")
        requested = Sizes(
            self.resources.get("VCPU", sizes.vcpus),
            self.resources.get("MEMORY_MB", sizes.memory_mb),
            sizes.disk_mb if disk_gb is None else 1024 * disk_gb,
        )
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "asked", requested)

    @classmethod
    def from_flavor(
        cls,
        flavor: FlavorLike,
        *,
        instance_uuid: str | None = None,
        image: ImageLike | None = None,
        exclude_nodes: Iterable[str] = (),
    ) -> RequestSpec:
        """The request for an instance of a flavor.

        :param image: its ``traits_required`` (a list) and its properties
            ``trait:CUSTOM_X = required`` ask for traits, too.
        :raises InvalidExtraSpec: one that is understood has an impossible value.
        """
        specs = dict(flavor.extra_specs)
        properties = image_properties(image)
        forbidden = _forbidden_traits(flavor.name, specs)
        return cls(
            instance_uuid=instance_uuid,
            flavor_name=flavor.name,
            vcpus=flavor.vcpus,
            memory_mb=flavor.memory_mb,
            root_gb=flavor.root_gb,
            ephemeral_gb=flavor.ephemeral_gb,
            swap=flavor.swap,
            extra_specs=specs,
            image_properties=properties,
            resources=_read_resources(flavor.name, specs),
            required_traits=required_traits(specs, properties),
            forbidden_traits=forbidden | _forbidden_traits("the image", properties),
            exclude_nodes=frozenset(exclude_nodes),
        )

    @property
    def resource_classes(self) -> Mapping[str, int]:
        """Amounts of custom resource classes, those above 0."""
        return {
            name: amount
            for name, amount in self.resources.items()
            if name.startswith(CUSTOM) and amount > 0
        }

    def without(self, nodes: Collection[str]) -> RequestSpec:
        """Return the request with further nodes that are not to be chosen."""
        return dataclasses.replace(self, exclude_nodes=self.exclude_nodes | frozenset(nodes))


@functools.lru_cache(maxsize=4096)
def placement_class(resource_class: str) -> str:
    """Return the name of an Ironic resource class in Placement's form, by OpenStack's own rule.

    ``gold.8`` is ``CUSTOM_GOLD_8``, and ``CUSTOM_GOLD`` is ``CUSTOM_CUSTOM_GOLD``.
    """
    name: str = os_resource_classes.normalize_name(resource_class)
    return name


def image_properties(image: ImageLike | None) -> dict[str, Any]:
    """An image's properties by name; of Nova's those that say something of nodes."""
    if image is None:
        return {}
    properties: Any = image.properties
    if isinstance(properties, Mapping):
        return dict(properties)
    # Nova's ImageMetaProps has a fixed set of fields and no keys().
    listed = properties.get("traits_required")
    return {"traits_required": listed} if listed else {}


def required_traits(specs: Mapping[str, Any], properties: Mapping[str, Any]) -> frozenset[str]:
    """Return the traits that a flavor's extra specs and an image's properties require."""
    named = {
        match["name"]
        for key, value in (*specs.items(), *properties.items())
        if value == "required" and (match := _TRAIT.fullmatch(key))
    }
    return frozenset(named.union(properties.get("traits_required") or ()))


def traits_of_nodes(required: Collection[str], traits: Collection[str]) -> frozenset[str]:
    """Return the required traits, without those that Nova itself gives to all compute nodes."""
    return frozenset(name for name in required if name in traits or not name.startswith(_OF_NOVA))


def _read_resources(flavor: str, specs: Mapping[str, str]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for key, value in specs.items():
        if match := _RESOURCE.fullmatch(key):
            try:
                amount = int(value)
            except ValueError:
                amount = -1
            if amount < 0:
                raise exceptions.InvalidExtraSpec(flavor, key, value, "a whole number from 0")
            amounts[match["name"]] = amounts.get(match["name"], 0) + amount
    return amounts


def _forbidden_traits(whose: str, specs: Mapping[str, Any]) -> frozenset[str]:
    """Return them, and refuse what neither requires nor forbids a trait."""
    names = set()
    for key, value in specs.items():
        if match := _TRAIT.fullmatch(key):
            if value not in ("required", "forbidden"):
                raise exceptions.InvalidExtraSpec(
                    whose, key, str(value), "'required' or 'forbidden'"
                )
            if value == "forbidden":
                names.add(match["name"])
    return frozenset(names)
