# SPDX-License-Identifier: Apache-2.0

"""From Ironic's JSON to nodes: the one border.

:class:`NodeDecoder` takes a page of ``GET /v1/nodes`` as bytes.  Nodes share equal
values (states, classes, properties): a fleet has few kinds of hardware, so 100,000
nodes stay small.

Malformed data costs the node that has it, never its page: what can be read is
kept, what can't is named in ``malformed``, and a node with a malformed field
never counts as free.  A field that was asked for and is missing is malformed too.
Only a node without a uuid makes its page unusable: left out, it would look
deleted.  Warnings are given once for each node and cause.

Ironic shows some texts to a node's owner only, and a remark in their place to others.
Such a text is not known: it is ``None``, and its name is in ``hidden``.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.baremetal import states
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.node import LIST_FIELDS, Node
from ironic_virt.baremetal.properties import NodeProperties, parse_properties

LOG = logging.getLogger(__name__)


class _WireNode(msgspec.Struct, kw_only=True, gc=False):
    """A node as it is sent: the types that Ironic promises, nothing shared yet."""

    uuid: str
    name: str | None = None
    instance_uuid: str | None = None
    power_state: str | None = None
    target_power_state: str | None = None
    provision_state: str | None = None
    target_provision_state: str | None = None
    last_error: str | None = None
    maintenance: bool | None = False
    maintenance_reason: str | None = None
    properties: msgspec.Raw = msgspec.Raw(b"{}")
    resource_class: str | None = None
    traits: list[str] | None = None
    conductor_group: str | None = None
    shard: str | None = None
    retired: bool | None = False
    protected: bool | None = False
    disable_power_off: bool | None = False
    protected_reason: str | None = None
    owner: str | None = None
    lessee: str | None = None
    reservation: str | None = None
    provision_updated_at: str | None = None
    instance_info: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None
    chassis_uuid: str | None = None
    instance_name: str | None = None
    health: str | None = None
    deploy_interface: str | None = None
    storage_interface: str | None = None
    console_enabled: bool | None = False


class _RawPage(msgspec.Struct):
    nodes: list[msgspec.Raw]
    next: str | None = None


class _Decoders(NamedTuple):
    page: msgspec.json.Decoder[Any]
    node: msgspec.json.Decoder[_WireNode]


@functools.lru_cache(maxsize=64)
def _decoders(asked: frozenset[str]) -> _Decoders:
    """Decoders that refuse a node without one of these fields."""
    required = [
        (field.name, field.type)
        for field in msgspec.structs.fields(_WireNode)
        if field.name in asked
    ]
    kind = msgspec.defstruct("_Asked", required, bases=(_WireNode,), kw_only=True, gc=False)
    page = msgspec.defstruct("_Page", [("nodes", list[kind]), ("next", str | None, None)])  # type: ignore[valid-type]
    return _Decoders(msgspec.json.Decoder(page), msgspec.json.Decoder(kind))


_RAW_PAGE = msgspec.json.Decoder(_RawPage)
_ANY = msgspec.json.Decoder()
_NO_TRAITS: frozenset[str] = frozenset()

_HIDDEN = re.compile(r"\*\* (Value )?Redacted\b", re.IGNORECASE)
_MAY_HIDE = b"edacted"

_LISTED_FOR_DOMAINS = ("extra", "conductor_group", "shard", "chassis_uuid")
"""Fields that lists ask for only if they name a node's failure domain."""
_LONGEST_DOMAIN = 255
"""Characters; Nova keeps no more of it with a server."""

_VITAL = frozenset({"instance_uuid", "provision_state", "power_state"})
"""Texts without which nothing can be decided: hidden, they count as malformed."""


class NodeDecoder:
    """Turns answers into nodes, sharing equal values; one for each client.

    Thread-safe: the tables that it shares values through only grow, by single
    dictionary operations.

    :param failure_domain: the option of this name: which field of a node names its domain.
    :ivar warned: the nodes that a warning was logged for.
    :ivar list_fields: the fields of every list that feeds the inventory.
    """

    # Free text and foreign data must not make the tables grow without limit.
    _TABLE_LIMIT = 10_000

    def __init__(self, failure_domain: str | None = None) -> None:
        self._rule = failure_domain and failure_domain.partition("/")[::2]
        more = self._rule[:1] if self._rule and self._rule[0] in _LISTED_FOR_DOMAINS else ()
        self.list_fields = (*LIST_FIELDS, *more)
        self._texts: dict[str, str] = {}
        self._properties: dict[bytes, NodeProperties] = {}
        self._traits: dict[tuple[str, ...], frozenset[str]] = {}
        self.warned = logs.LogOnce()

    def page(self, body: bytes, asked: Collection[str] = ()) -> tuple[list[Node], str | None]:
        """Decode a page of nodes.

        :param asked: the fields that were asked for.
        :returns: the nodes in the server's order, and the URL of the next page.
        :raises UnexpectedAnswer: it isn't a page of nodes at all.
        """
        fields = frozenset(asked)
        try:
            page = _decoders(fields).page.decode(body)
        except answers.UNREADABLE:
            raw = answers.decode_json(_RAW_PAGE, body, "a page of nodes")
            return [self.one(bytes(node), fields) for node in raw.nodes], raw.next
        hides = _MAY_HIDE in body
        return [self._node(wire, hides=hides) for wire in page.nodes], page.next

    def one(self, body: bytes, asked: Collection[str] = ()) -> Node:
        """Decode a single node.

        :param asked: the fields that were asked for.
        :raises UnexpectedAnswer: it isn't a node.
        """
        fields = frozenset(asked)
        try:
            wire = _decoders(fields).node.decode(body)
        except answers.UNREADABLE:
            return self._piecewise(body, fields)
        return self._node(wire, hides=_MAY_HIDE in body)

    def _piecewise(self, body: bytes, asked: frozenset[str]) -> Node:
        """Read a node field by field; a field that can't be read is listed as malformed."""
        data = answers.decode_json(_ANY, body, "a node")
        if not isinstance(data, dict) or not isinstance(data.get("uuid"), str):
            raise exceptions.UnexpectedAnswer("a node without a uuid")
        good: dict[str, Any] = {}
        bad = [name for name in _WireNode.__struct_fields__ if name in asked - data.keys()]
        if bad:
            self._warn(data["uuid"], f"the answer lacks {', '.join(bad)}")
        for field in msgspec.structs.fields(_WireNode):
            if field.name not in data:
                continue
            if field.name == "properties":
                continue
            try:
                good[field.name] = msgspec.convert(data[field.name], field.type)
            except msgspec.ValidationError as exc:
                bad.append(field.name)
                self._warn(data["uuid"], f"field {field.name!r} is malformed: {exc}")
        properties = parse_properties(data.get("properties"))
        return self._node(_WireNode(**good), tuple(bad), properties, hides=True)

    def _node(
        self,
        wire: _WireNode,
        malformed: tuple[str, ...] = (),
        properties: NodeProperties | None = None,
        *,
        hides: bool = False,
    ) -> Node:
        hidden = _hide(wire) if hides else ()
        if hidden and (unknown := tuple(name for name in hidden if name in _VITAL)):
            malformed += unknown
            self._warn(wire.uuid, f"Ironic hides {', '.join(unknown)} from this service's user")
        if properties is None:
            properties = self._shared_properties(wire.properties)
        for cause in properties.malformed:
            self._warn(wire.uuid, cause)
        share = self._shared
        state, power = wire.provision_state, wire.power_state
        if state is not None and state not in states.ALL:
            self._warn(wire.uuid, f"provision state {state!r} is unknown; it counts as not free")
        if power is not None and power not in states.ALL_POWER:
            self._warn(wire.uuid, f"power state {power!r} is unknown; it counts as not free")
        return Node(
            uuid=wire.uuid,
            name=wire.name,
            instance_uuid=wire.instance_uuid,
            power_state=share(power),
            target_power_state=share(wire.target_power_state),
            provision_state=share(state) or "",
            target_provision_state=share(wire.target_provision_state),
            last_error=wire.last_error and logs.reason(wire.last_error),
            maintenance=bool(wire.maintenance),
            maintenance_reason=wire.maintenance_reason and logs.reason(wire.maintenance_reason),
            properties=properties,
            resource_class=share(wire.resource_class),
            traits=self._shared_traits(wire.traits) if wire.traits else _NO_TRAITS,
            conductor_group=share(wire.conductor_group),
            shard=share(wire.shard),
            retired=bool(wire.retired),
            protected=bool(wire.protected),
            disable_power_off=bool(wire.disable_power_off),
            protected_reason=wire.protected_reason and logs.reason(wire.protected_reason),
            owner=share(wire.owner),
            lessee=share(wire.lessee),
            reservation=wire.reservation,
            provision_updated_at=wire.provision_updated_at,
            instance_info=wire.instance_info,
            # A list asks for it for the sake of one text at most.
            extra=None if wire.instance_info is None else wire.extra,
            instance_name=wire.instance_name,
            health=share(wire.health),
            deploy_interface=share(wire.deploy_interface),
            storage_interface=share(wire.storage_interface),
            console_enabled=bool(wire.console_enabled),
            malformed=malformed,
            hidden=hidden,
            failure_domain=share(_domain(*self._rule, wire, properties)) if self._rule else None,
        )

    def _shared(self, text: str | None) -> str | None:
        if text is None:
            return None
        known = self._texts.get(text)
        if known is not None:
            return known
        if len(self._texts) < self._TABLE_LIMIT:
            self._texts[text] = text
        return text

    def _shared_traits(self, traits: list[str]) -> frozenset[str]:
        known = self._traits.get(tuple(traits))
        if known is None:
            # Of traits too there are few, also where each node has its own set.
            key = tuple(sys.intern(trait) for trait in traits)
            known = frozenset(key)
            if len(self._traits) < self._TABLE_LIMIT:
                self._traits[key] = known
        return known

    def _shared_properties(self, raw: msgspec.Raw) -> NodeProperties:
        key = bytes(raw)
        known = self._properties.get(key)
        if known is None:
            known = parse_properties(answers.decode_json(_ANY, key, "a node's properties"))
            if len(self._properties) < self._TABLE_LIMIT:
                self._properties[key] = known
        return known

    def _warn(self, uuid: str, cause: str) -> None:
        if self.warned.is_news((uuid, cause)):
            LOG.warning("[node-malformed] Node %s: %s", uuid, cause)


def _domain(kind: str, name: str, wire: _WireNode, properties: NodeProperties) -> str:
    """The failure domain of a node; ``""``: it has none, or several."""
    match kind:
        case "capabilities":
            value: Any = dict(properties.capabilities).get(name)
        case "extra":
            value = (wire.extra or {}).get(name)
        case "traits":
            matches = [trait for trait in wire.traits or () if trait.startswith(name)]
            value = matches[0] if len(matches) == 1 else None
        case _:
            value = getattr(wire, kind)
    is_text = isinstance(value, str | int) and not isinstance(value, bool)
    return str(value)[:_LONGEST_DOMAIN] if is_text else ""


def _hide(wire: _WireNode) -> tuple[str, ...]:
    """Take remarks for what they are; the names of the fields that had one."""
    hidden = []
    for name in _WireNode.__struct_fields__:
        text = getattr(wire, name)
        if name != "uuid" and isinstance(text, str) and _HIDDEN.match(text):
            setattr(wire, name, None)
            hidden.append(name)
    return tuple(hidden)
