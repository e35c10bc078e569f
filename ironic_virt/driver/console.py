# SPDX-License-Identifier: Apache-2.0

"""Where the console of an instance's node is, switched on for whoever asks.

A serial console has room for one: if it is on, somebody may have it, so it is switched off
and on again.  A VNC console has room for several, and Ironic switches it off after a time.

What was switched on here and can't be used is switched off again.  What somebody else has
switched on and is of another kind than was asked for stays as it is.

When an instance goes, its console is switched off, whoever has switched it on: Ironic would
start it again, at the same address, for the node's next instance.

That it is on is read from the node: asking for the console itself would end a session.
"""

from __future__ import annotations

import contextlib
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.consoles import ConsoleInfo
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.waiting.watcher import Watcher
from ironic_virt.driver.access import NodeAccess
from ironic_virt.virt import ConsoleAddress, InstanceLike

LOG = logging.getLogger(__name__)


_LONGEST_OFF = 60.0
"""Seconds until an instance goes although its console is not off."""


class _Kind(NamedTuple):
    name: Literal["serial", "vnc"]
    in_ironic: str
    option: str | None

    @property
    def bound(self) -> str:
        """What bounds the time that it may take, for an error."""
        return f" ([ironic] {self.option})" if self.option else ""


_SERIAL = _Kind("serial", "socat", "serial_console_state_timeout")
_VNC = _Kind("vnc", "vnc", "vnc_console_state_timeout")
# Which kind it is nobody asks: that would end the session, and take its time.
_LEFT_ON = _Kind("serial", "", None)


class Console:
    """Finds consoles.  Thread-safe: it keeps nothing between calls.

    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        client: IronicClient,
        access: NodeAccess,
        watcher: Watcher,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._conf = conf
        self._client = client
        self._access = access
        self._watcher = watcher
        self._clock = clock

    def serial(self, instance: InstanceLike) -> ConsoleAddress:
        """The serial console, which nobody else has any more.

        :raises InstanceNotFound: no node carries it.
        :raises ConsoleUnavailable, WaitTimeout: there is none to be had.
        :raises NodeNotOurs: the node is outside the target set; nothing was done.
        """
        node = self._at_rest(instance, _SERIAL)
        if node.console_enabled:
            self._info(node, instance, _SERIAL)
            self._switch(node, instance, _SERIAL, on=False)
        with self._switched_on(node, instance, _SERIAL):
            host, port = _tcp(self._info(node, instance, _SERIAL), node, instance)
        LOG.info("Instance %s, node %s: its serial console is on", instance.uuid, node.uuid)
        return ConsoleAddress("serial", host, port)

    def vnc(self, instance: InstanceLike) -> ConsoleAddress:
        """The graphical console: a VNC server, and the page of Ironic's own proxy to it.

        :raises InstanceNotFound: no node carries it.
        :raises ConsoleUnavailable, WaitTimeout: there is none to be had.
        :raises NodeNotOurs: the node is outside the target set; nothing was done.
        """
        node = self._at_rest(instance, _VNC)
        if node.console_enabled:
            return self._vnc_address(node, instance)
        with self._switched_on(node, instance, _VNC):
            address = self._vnc_address(node, instance)
        LOG.info("Instance %s, node %s: its VNC console is on", instance.uuid, node.uuid)
        return address

    def switch_off(self, node: Node, instance: InstanceLike) -> None:
        """Switch a console off whose instance goes.

        If that fails the instance goes all the same, and a warning says so.

        :param node: past the guard, read just now, with its console on.
        :raises WaitCancelled: the service stops.
        """
        try:
            self._let_go(node, instance, _LEFT_ON)
            self._switch(node, instance, _LEFT_ON, on=False)
        except exceptions.WaitCancelled:
            raise
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            LOG.warning(
                "Instance %s, node %s: its console can't be switched off before the instance "
                "goes, so who has it may have that of the node's next instance: %s. Switch it "
                "off in Ironic: openstack baremetal node console disable %s",
                *(instance.uuid, node.uuid, exc, node.uuid),
            )
            return
        LOG.info("Instance %s, node %s: its console is off", instance.uuid, node.uuid)

    # -- where it is ----------------------------------------------------------

    def _info(self, node: Node, instance: InstanceLike, kind: _Kind) -> ConsoleInfo:
        """What Ironic says of a console that is on, and of the kind that is wanted."""
        try:
            info = self._client.consoles.get(node.uuid)
        except exceptions.IronicError as exc:
            if not _is_refusal(exc):
                raise
            raise _refused(exc, node, instance, kind, "tells nothing of") from exc
        if not info.enabled:
            reason = "somebody has switched the console off meanwhile; ask again"
            raise _unavailable(node, instance, kind, reason)
        if info.kind != kind.in_ironic:
            found = f"is of type {info.kind!r}" if info.kind else "has no address"
            reason = (
                f"the node's console {found}, and {kind.in_ironic!r} is wanted: "
                "see the node's console_interface"
            )
            raise _unavailable(node, instance, kind, reason)
        return info

    def _vnc_address(self, node: Node, instance: InstanceLike) -> ConsoleAddress:
        info = self._info(node, instance, _VNC)
        try:
            host, port = self._client.consoles.vnc_address(node.uuid)
        except exceptions.IronicError as exc:
            if not _is_refusal(exc):
                raise
            raise _refused(exc, node, instance, _VNC, "tells nothing of") from exc
        if not host or port is None:
            reason = "Ironic has noted no vnc_host and vnc_port in the node's driver_internal_info"
            raise _unavailable(node, instance, _VNC, reason)
        return ConsoleAddress("vnc", host, port, url=info.url)

    # -- on and off -----------------------------------------------------------

    def _at_rest(self, instance: InstanceLike, kind: _Kind) -> Node:
        """The node that carries the instance, past the guard, when it is not locked."""
        node = self._access.of_instance(instance)
        self._access.guard(node, instance)
        if node.reservation is not None:
            self._let_go(node, instance, kind)
            node = self._access.held(instance, node.uuid)
        return node

    def _let_go(self, node: Node, instance: InstanceLike, kind: _Kind) -> None:
        """Wait until a node is not locked any more: Ironic would forget what it is asked for."""
        if node.reservation is not None:
            self._wait_until(node, instance, kind, _unlocked, f"be let go by {node.reservation}")

    @contextlib.contextmanager
    def _switched_on(self, node: Node, instance: InstanceLike, kind: _Kind) -> Iterator[None]:
        """Switch it on, and off again if that or the block fails."""
        self._ask(node, instance, kind, on=True)
        try:
            self._reached(node, instance, kind, on=True)
            yield
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            self._off_again(node, instance, exc)
            raise

    def _off_again(self, node: Node, instance: InstanceLike, error: Exception) -> None:
        try:
            now = self._access.held(instance, node.uuid)
            if now.reservation is not None:
                # Ironic would take the wish, and forget it.
                why = f"{now.reservation} holds the node"
            elif now.console_enabled:
                self._client.single_try().consoles.switch(node.uuid, False)
                return
            else:
                return
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            why = str(exc)
        LOG.warning(
            "Instance %s, node %s: its console may be left on, for it can't be switched off: %s",
            *(instance.uuid, node.uuid, why),
        )
        error.add_note("It may be left on")

    def _switch(self, node: Node, instance: InstanceLike, kind: _Kind, *, on: bool) -> None:
        self._ask(node, instance, kind, on=on)
        self._reached(node, instance, kind, on=on)

    def _timeout(self, kind: _Kind) -> float:
        """Seconds that a change may take; 0: no limit."""
        return float(getattr(self._conf.ironic, kind.option)) if kind.option else _LONGEST_OFF

    def _ask(self, node: Node, instance: InstanceLike, kind: _Kind, *, on: bool) -> None:
        timeout = self._timeout(kind)
        began = self._clock()

        def again() -> None:
            now = self._access.held(instance, node.uuid)
            passed = self._clock() - began
            if timeout and passed >= timeout:
                what = f"be let go by {now.reservation}{kind.bound}"
                raise exceptions.WaitTimeout(node.uuid, instance.uuid, what, passed, now.states)

        try:
            self._client.consoles.switch(node.uuid, on, again=again)
        except exceptions.IronicError as exc:
            if not _is_refusal(exc):
                raise
            what = "refuses to switch on" if on else "refuses to switch off"
            raise _refused(exc, node, instance, kind, what) from exc

    def _reached(self, node: Node, instance: InstanceLike, kind: _Kind, *, on: bool) -> None:
        def until(now: Node) -> bool:
            # Ironic holds the node's lock from taking the request until its end.
            if now.reservation is not None:
                return False
            if now.console_enabled == on:
                return True
            if now.hides_lock:
                # Nobody tells whether Ironic has begun.
                return False
            done = "switched on" if on else "switched off"
            reason = f"the console could not be {done}: {now.why}"
            raise _unavailable(node, instance, kind, reason)

        self._wait_until(node, instance, kind, until, f"have its console {'on' if on else 'off'}")

    def _wait_until(
        self,
        node: Node,
        instance: InstanceLike,
        kind: _Kind,
        until: Callable[[Node], bool],
        what: str,
    ) -> None:
        def there(now: Node | None) -> bool | None:
            if now is None or now.instance_uuid != instance.uuid:
                reason = "the instance went off the node meanwhile"
                raise _unavailable(node, instance, kind, reason)
            return until(now) or None

        self._watcher.wait(
            node.uuid,
            there,
            what=f"{what}{kind.bound}",
            timeout=self._timeout(kind),
            instance=instance.uuid,
            state=node.provision_state,
        )


def _unlocked(node: Node) -> bool:
    return node.reservation is None


def _unavailable(
    node: Node,
    instance: InstanceLike,
    kind: _Kind,
    reason: str,
    request_id: str | None = None,
) -> exceptions.ConsoleUnavailable:
    return exceptions.ConsoleUnavailable(
        node.uuid, instance.uuid, kind.name, reason, request_id=request_id
    )


def _is_refusal(error: exceptions.IronicError) -> bool:
    """Whether Ironic has said no; else it could not be asked."""
    return error.status is not None and not isinstance(
        error, exceptions.IronicUnavailable | exceptions.UnexpectedAnswer
    )


def _refused(
    error: exceptions.IronicError, node: Node, instance: InstanceLike, kind: _Kind, what: str
) -> exceptions.ConsoleUnavailable:
    reason = f"Ironic {what} the console: {error.message}"
    return _unavailable(node, instance, kind, reason, error.request_id)


def _tcp(info: ConsoleInfo, node: Node, instance: InstanceLike) -> tuple[str, int]:
    """Host and port of a console that is a stream of TCP."""
    try:
        url = urllib.parse.urlsplit(info.url or "")
        if url.scheme == "tcp" and url.hostname and url.port:
            return url.hostname, url.port
    except ValueError:
        pass
    reason = f"its address {info.url!r} is not like 'tcp://host:port'"
    raise _unavailable(node, instance, _SERIAL, reason)
