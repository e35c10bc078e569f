# SPDX-License-Identifier: Apache-2.0

"""An Ironic made of what one of Nova's tests has set up in its mocks.

Our driver sends HTTP; the tests replace the SDK's connection.  :class:`Bridge` takes the
place of the channel below our client and asks the connection what the SDK would have
been asked: the same method, the same arguments.  What the connection returns or raises
becomes an answer, and what was changed is remembered, so that the node is afterwards as
Ironic would show it.

A few of Nova's private methods are replaced by tests only to say how things are (which
node has the instance, which nodes there are) or to see what was done.  Those are called
here, too: see :class:`stand_in.IronicDriver`.

Within one call of the driver each question is put to the mocks once and answered from
memory afterwards: how often Ironic is asked is measured elsewhere, on a real one.
"""

import re
from collections.abc import Callable
from typing import Any

from nova import exception
from openstack import exceptions as sdk_exceptions
from openstack.baremetal.v1 import node as sdk_node
from oslo_service import loopingcall

from ironic_virt import exceptions
from ironic_virt.baremetal import states
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.driver.deploy import instance_info
from tests.nova.upstream import wire

_NO_ID = "00000000-0000-4000-8000-000000000000"
"""The uuid of a node for which a test gives none."""

_PATIENCE = 40
"""Requests within one call, after which the driver waits for what will never be."""

_AFTER_A_WHILE = {
    states.DEPLOYING: states.ACTIVE,
    states.DEPLOY_DONE: states.ACTIVE,
    states.RESCUING: states.RESCUE,
    states.UNRESCUING: states.ACTIVE,
    states.SERVICING: states.ACTIVE,
    states.VERIFYING: states.MANAGEABLE,
    states.CLEANING: states.AVAILABLE,
    states.CLEAN_WAIT: states.AVAILABLE,
    states.CLEAN_HOLD: states.AVAILABLE,
    states.INSPECTING: states.MANAGEABLE,
    states.INSPECT_WAIT: states.MANAGEABLE,
    states.ADOPTING: states.ACTIVE,
}
"""What a node that is busy comes to by itself."""

_AFTER_VERB = {
    "active": states.ACTIVE,
    "rebuild": states.ACTIVE,
    "rescue": states.RESCUE,
    "unrescue": states.ACTIVE,
    "abort": states.SERVICE_FAILED,
    "unhold": states.ACTIVE,
}
_FAILED = {"rescue": states.RESCUE_FAILED, "unrescue": states.UNRESCUE_FAILED}
"""The state in which a test shows a node, whenever it is looked at, for a verb to fail."""

_BEFORE = {"rescue": states.ACTIVE, "unrescue": states.RESCUE}
"""The state from which a call goes out, where a test says nothing of the node at all."""

_CONSOLES = frozenset({"get_serial_console", "get_vnc_console"})
"""Calls for which a test says how the node's console is."""

_AFTER_POWER = {
    states.POWER_ON: states.POWER_ON,
    states.POWER_OFF: states.POWER_OFF,
    states.REBOOT: states.POWER_ON,
    states.SOFT_REBOOT: states.POWER_ON,
}


class Held:
    """A node as the test gave it, and what has been done to it since."""

    def __init__(self, source: Any, uuid: str, **known: Any) -> None:
        self.source = source
        self.uuid = uuid
        self.since: dict[str, Any] = known
        self._looks = 0

    def shown(self) -> dict[str, Any]:
        """The node as Ironic would send it; a busy one goes on from the second look."""
        body = wire.node(self.source, self.uuid) | self.since
        state = body.get("provision_state")
        self._looks += 1
        if self._looks > 1 and state in (states.DELETING, states.DELETED):
            self.torn_down()
        elif self._looks > 1 and state in _AFTER_A_WHILE:
            self.since["provision_state"] = _AFTER_A_WHILE[state]
        return body | self.since

    def torn_down(self) -> None:
        """Ironic has taken the instance off."""
        self.since |= {"instance_uuid": None, "provision_state": states.AVAILABLE}


class Bridge:
    """The channel of a driver under one of Nova's tests.

    :param test_side: has the connection and the private names that tests replace.
    """

    def __init__(self, test_side: Any) -> None:
        self._side = test_side
        self._method = ""
        self._called_with: tuple[Any, ...] = ()
        self._nodes: dict[str, Held] = {}
        self._given: dict[str, Any] = {}
        self._carried: dict[str, Any] = {}
        self._vifs: list[str] = []
        self._requests = 0

    def carry(self, source: Any, instance: str) -> None:
        """Let a node carry an instance where the test leaves that out."""
        self._carried[instance] = source

    def give(self, source: Any) -> None:
        """Let Ironic have a node that the connection doesn't know."""
        self._given[source.id] = source

    def begin(self, method: str, *args: Any) -> None:
        """A call of the driver begins; what was remembered of the former one is over."""
        self._method = method
        self._called_with = args
        self._nodes = {}
        self._vifs = []
        self._requests = 0
        self._console_said: Any = None
        self._console_wanted: bool | None = None

    # -- the channel ----------------------------------------------------------

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Any = None,
        json: Any = None,
        version: str | None = None,
        timeout: float | None = None,
    ) -> Answer:
        self._requests += 1
        assert self._requests <= _PATIENCE, f"still asking after {_PATIENCE} requests"
        for wanted, pattern, handle in self._routes():
            if wanted == method and (match := re.fullmatch(pattern, path)):
                node = match.groupdict().get("node")
                try:
                    return handle(params or {}, json, *match.groups())
                except (AssertionError, exceptions.IronicError):
                    raise
                except Exception as raised:
                    return wire.error(raised, node)
        raise AssertionError(f"no bridge for {method} {path}")

    def _routes(self) -> list[tuple[str, str, Callable[..., Answer]]]:
        node = "/nodes/(?P<node>[^/]+)"
        return [
            ("GET", "", self._root),
            ("GET", "/nodes", self._list),
            ("GET", node, self._get),
            ("PATCH", node, self._patch),
            ("GET", f"{node}/validate", self._validate),
            ("PUT", f"{node}/states/provision", self._provision),
            ("PUT", f"{node}/states/power", self._power),
            ("PUT", f"{node}/management/inject_nmi", self._inject_nmi),
            ("GET", f"{node}/history", self._history),
            ("GET", f"{node}/states/console", self._console),
            ("PUT", f"{node}/states/console", self._switch_console),
            ("GET", f"{node}/vifs", self._list_vifs),
            ("POST", f"{node}/vifs", self._attach_vif),
            ("DELETE", f"{node}/vifs/([^/]+)", self._detach_vif),
            ("GET", "/ports", self._ports),
            ("GET", "/portgroups", self._port_groups),
            ("GET", "/volume/connectors", self._volume_connectors),
        ]

    @property
    def _connection(self) -> Any:
        return self._side._ironic_connection

    def _root(self, params: Any, body: Any) -> Answer:
        return wire.answer({"version": {"min_version": "1.1", "version": "1.115"}})

    # -- nodes ----------------------------------------------------------------

    def _list(self, params: Any, body: Any) -> Answer:
        if "sort_key" in params:
            # What changed last: nothing, so that the whole list is asked for.
            return wire.answer({"nodes": []})
        if instance := params.get("instance_uuid"):
            held = self._of_instance(instance)
            if held and self._method in _CONSOLES:
                held.since |= self._console_of(held.uuid)
            return wire.answer({"nodes": [held.shown()] if held else []})
        where = {key: params[key] for key in ("conductor_group", "shard") if key in params}
        return wire.answer({"nodes": [held.shown() for held in self._all(where)]})

    def _all(self, where: dict[str, str]) -> list[Held]:
        if self._side._is_told("_refresh_cache"):
            try:
                self._side._refresh_cache()
            except exception.VirtDriverNotReady as exc:
                raise exceptions.IronicUnreachable(str(exc)) from exc
        if self._side._is_told("_get_node_list"):
            found = self._side._get_node_list(fields=self._side.fields, **where)
        elif self._side.node_cache:
            return [Held(node, node.id or key) for key, node in self._side.node_cache.items()]
        else:
            found = self._connection.nodes(fields=self._side.fields, **where)
        return [] if wire.is_unsaid(found) else [Held(node, node.id) for node in found]

    def _of_instance(self, instance: str) -> Held | None:
        for held in self._nodes.values():
            if held.since.get("instance_uuid", instance) == instance:
                return held
        return self._found_again(instance)

    def _found_again(self, instance: str) -> Held | None:
        if instance in self._carried:
            source = self._carried[instance]
            known = {"instance_uuid": instance, "provision_state": states.ACTIVE}
            return self._hold(Held(source, source.id, **known))
        if self._side._is_told("_validate_instance_and_node"):
            try:
                source = self._side._validate_instance_and_node(self._instance())
            except exception.InstanceNotFound:
                return None
        else:
            found = self._connection.nodes(instance_id=instance, fields=self._side.fields)
            if wire.is_unsaid(found):
                return self._of_its_node(instance)
            sources = list(found)
            if not sources:
                return None
            source = sources[0]
        # A node that is found by its instance carries it, even if the test left that out.
        return self._hold(Held(source, source.id or _NO_ID, instance_uuid=instance))

    def _of_its_node(self, instance: str) -> Held | None:
        """The node of an instance by its own uuid, which is enough for some of Nova's code."""
        uuid = getattr(self._instance(), "node", None)
        held = self._node(uuid) if uuid else None
        if held is not None and self._method in _BEFORE:
            held.since |= {"instance_uuid": instance, "provision_state": _BEFORE[self._method]}
            return held
        if held is None or held.source.instance_id != instance:
            return None
        # Tests leave the state to be a free node's.
        held.since["provision_state"] = states.ACTIVE
        return held

    def _hold(self, held: Held) -> Held:
        self._nodes[held.uuid] = held
        return held

    def _node(self, uuid: str) -> Held:
        if uuid in self._nodes:
            return self._nodes[uuid]
        if uuid in self._given:
            return self._hold(Held(self._given[uuid], uuid))
        name = self._side._name_of(uuid)
        if self._side._is_told("_node_from_cache"):
            return self._hold(self._described(name, uuid))
        source = self._connection.get_node(name, fields=self._side.fields)
        if wire.is_unsaid(source):
            source = sdk_node.Node(id=uuid)
        held = Held(source, uuid)
        if source.power_state is None:
            # Spawning is left to prepare_for_spawn to refuse it; no test is about that.
            held.since["power_state"] = states.POWER_OFF
        return self._hold(held)

    def _described(self, name: Any, uuid: str) -> Held:
        """A node for which a test says what the parts of Nova's driver find."""
        source = self._side._node_from_cache(name)
        known: dict[str, Any] = {"power_state": states.POWER_OFF}
        resource = self._side._node_resource(source)
        known["resource_class"] = resource["resource_class"]
        if self._side._node_resources_used(source):
            known |= {"instance_uuid": uuid, "provision_state": states.ACTIVE}
        if self._side._node_resources_unavailable(source):
            known["maintenance"] = True
        return Held(source, uuid, **known)

    def _get(self, params: Any, body: Any, uuid: str) -> Answer:
        if params.get("fields") == "driver_internal_info":
            source = self._connection.get_node(uuid, fields=("uuid", params["fields"]))
            return wire.answer(wire.node(source, uuid))
        held = self._node(uuid)
        if self._method in _CONSOLES:
            held.since |= self._console_of(uuid)
        return wire.answer(held.shown())

    def _patch(self, params: Any, body: Any, uuid: str) -> Answer:
        held = self._node(uuid)
        changes = {(change["op"], change["path"]): change.get("value") for change in body}
        if ("remove", "/instance_uuid") in changes:
            self._release(held)
            return wire.answer(held.shown())
        instance = changes.pop(("add", "/instance_uuid"), None)
        if instance is not None and held.since.get("instance_uuid") != instance:
            self._connection.update_node(
                held.source, retry_on_conflict=False, instance_id=instance
            )
            held.since["instance_uuid"] = instance
        if changes:
            self._inform(held, changes)
        return wire.answer(held.shown())

    def _inform(self, held: Held, changes: dict[tuple[str, str], Any]) -> None:
        """Change ``instance_info``; Nova's driver adds one key at a time."""
        info = dict(held.shown().get("instance_info") or {})
        # Our driver recognizes its keys by this one.
        changes.pop(("add", f"/instance_info/{instance_info.KEYS}"), None)
        for (op, path), value in changes.items():
            key = path.removeprefix("/instance_info/")
            if op == "remove":
                info.pop(key, None)
            else:
                info[key] = value
        patch = [{"op": op, "path": path, "value": value} for (op, path), value in changes.items()]
        self._connection.patch_node(held.source, patch)
        held.since["instance_info"] = info

    def _release(self, held: Held) -> None:
        if self._side._is_told("_cleanup_deploy"):
            self._side._cleanup_deploy(held.source, self._instance(), self._side.destroyed_network)
        else:
            self._connection.update_node(held.source, instance_id=None, instance_info={})
        held.torn_down()

    def _instance(self) -> Any:
        return next(arg for arg in self._called_with if hasattr(arg, "uuid"))

    def _validate(self, params: Any, body: Any, uuid: str) -> Answer:
        found = self._connection.validate_node(uuid, required=None)
        if wire.is_unsaid(found):
            return wire.answer({})
        return wire.answer(
            {name: {"result": it.result, "reason": it.reason} for name, it in found.items()}
        )

    # -- states ---------------------------------------------------------------

    def _provision(self, params: Any, body: Any, uuid: str) -> Answer:
        held, verb = self._node(uuid), body["target"]
        more = {}
        if verb in ("active", "rebuild"):
            more["config_drive"] = body.get("configdrive")
        if "rescue_password" in body:
            more["rescue_password"] = body["rescue_password"]
        self._connection.set_node_provision_state(uuid, verb, **more)
        if verb == "deleted":
            held.torn_down()
        else:
            failed = held.source.provision_state == _FAILED.get(verb, "")
            held.since["provision_state"] = _FAILED[verb] if failed else self._reached(verb)
        return wire.answer(None, 202)

    def _reached(self, verb: str) -> str:
        """The state after a verb; a test that replaces the wait says how that ends."""
        if wire.is_unsaid(loopingcall.FixedIntervalLoopingCall):
            try:
                loopingcall.FixedIntervalLoopingCall.return_value.wait()
            except exception.NovaException:
                return states.DEPLOY_FAILED
        return _AFTER_VERB[verb]

    def _power(self, params: Any, body: Any, uuid: str) -> Answer:
        held, target = self._node(uuid), body["target"]
        more = {"timeout": body["timeout"]} if "timeout" in body else {}
        self._connection.set_node_power_state(uuid, sdk_node.PowerAction(target), **more)
        if target in _AFTER_POWER:
            held.since["power_state"] = _AFTER_POWER[target]
        else:
            # Whether a soft one has done it, the test says by how the node is found then.
            del self._nodes[uuid]
            try:
                self._found_again(self._instance().uuid)
            except StopIteration:
                self._hold(held)
        return wire.answer(None, 202)

    def _history(self, params: Any, body: Any, uuid: str) -> Answer:
        # Nova's driver never asks for it.
        return wire.answer({"history": []})

    def _inject_nmi(self, params: Any, body: Any, uuid: str) -> Answer:
        self._connection.inject_nmi_to_node(uuid)
        return wire.answer(None, 204)

    # -- consoles -------------------------------------------------------------

    def _console_of(self, uuid: str) -> dict[str, Any]:
        """Whether a node's console is on; while that is not as was wanted, it is locked."""
        if self._console_wanted is not False:
            self._console_said = self._connection.get_node_console(uuid)
            on = self._console_said["console_enabled"]
        else:
            # Tests leave it to their mock to switch one off.
            on = False
        busy = self._console_wanted is not None and on != self._console_wanted
        return {"console_enabled": on, "reservation": "conductor-1" if busy else None}

    def _console(self, params: Any, body: Any, uuid: str) -> Answer:
        return wire.answer(self._console_said)

    def _switch_console(self, params: Any, body: Any, uuid: str) -> Answer:
        self._console_wanted = body["enabled"]
        if body["enabled"]:
            self._connection.enable_node_console(uuid)
        else:
            self._connection.disable_node_console(uuid)
        return wire.answer(None, 202)

    # -- networks -------------------------------------------------------------

    def _list_vifs(self, params: Any, body: Any, uuid: str) -> Answer:
        return wire.answer({"vifs": [{"id": vif} for vif in self._vifs]})

    def _attach_vif(self, params: Any, body: Any, uuid: str) -> Answer:
        if self._side._is_told("_plug_vifs"):
            self._side._plug_vifs(
                self._node(uuid).source, self._instance(), self._side.given_network
            )
        try:
            self._connection.attach_vif_to_node(uuid, body["id"], retry_on_conflict=False)
        except sdk_exceptions.ConflictException:
            # To Nova's driver that is a VIF that is attached already.
            self._vifs.append(body["id"])
            raise
        self._vifs.append(body["id"])
        return wire.answer(None, 204)

    def _detach_vif(self, params: Any, body: Any, uuid: str, vif: str) -> Answer:
        self._connection.detach_vif_from_node(uuid, vif)
        return wire.answer(None, 204)

    def _ports(self, params: Any, body: Any) -> Answer:
        found = self._connection.ports(node=params["node"], details=True)
        whose = {"node_uuid": params["node"]}
        return wire.answer({"ports": [wire.port(port) | whose for port in found]})

    def _port_groups(self, params: Any, body: Any) -> Answer:
        found = self._connection.port_groups(node=params["node"], details=True)
        whose = {"node_uuid": params["node"]}
        return wire.answer({"portgroups": [wire.port_group(group) | whose for group in found]})

    # -- volumes --------------------------------------------------------------

    def _volume_connectors(self, params: Any, body: Any) -> Answer:
        found = self._connection.volume_connectors(node=params["node"], details=True)
        whose = {"node_uuid": params["node"]}
        return wire.answer({"connectors": [wire.volume_connector(one) | whose for one in found]})
