# SPDX-License-Identifier: Apache-2.0

"""The address of the console of an instance's node, which is switched on if it is off.

A serial console has room for one: if it is on, somebody may have it, so it is switched off
and on again.  A VNC console has room for several, and Ironic switches it off after a time.

What was switched on here and can't be used is switched off again.  What somebody else has
switched on and is of another kind than was asked for stays as it is.

When an instance is destroyed, its console is switched off, also if an operator has switched
it on: Ironic would start it again, at the same address, for the node's next instance.

That it is on is read from the node: asking for the console itself would end a session.
"""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.consoles import ConsoleInfo
from ironic_virt.baremetal.node import Node
from ironic_virt.driver.held import Held, is_refusal
from ironic_virt.driver.site import Site
from ironic_virt.virt import ConsoleAddress, InstanceLike

LOG = logging.getLogger(__name__)

_LONGEST_OFF = 60.0
"""Seconds until an instance goes although its console is not off."""

_REMEDY = "Switch it off in Ironic: openstack baremetal node console disable {}"


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
# Asking which kind it is would end the session, and take its time.
_LEFT_ON = _Kind("serial", "", None)


class Console:
    """The part of the driver that is about consoles."""

    _site: Site

    def get_serial_console(self, instance: InstanceLike) -> ConsoleAddress:
        """Enable the serial console, or restart it if it is on, and return its address.

        A session of somebody else ends.

        :raises ConsoleUnavailable, WaitTimeout: there is none.
        """
        held = _at_rest(self._site, instance, _SERIAL)
        if held.node.console_enabled:
            held.info()
            held.switch_off()
        with held.switched_on():
            host, port = held.tcp_address()
        LOG.info("Instance %s, node %s: its serial console is on", instance.uuid, held.uuid)
        return ConsoleAddress("serial", host, port)

    def get_vnc_console(self, instance: InstanceLike) -> ConsoleAddress:
        """Enable the graphical console, and return the addresses of its VNC server and page.

        :raises ConsoleUnavailable, WaitTimeout: there is none.
        """
        held = _at_rest(self._site, instance, _VNC)
        if held.node.console_enabled:
            return held.vnc_address()
        with held.switched_on():
            address = held.vnc_address()
        LOG.info("Instance %s, node %s: its VNC console is on", instance.uuid, held.uuid)
        return address


def switch_off(site: Site, held: Held) -> None:
    """Switch a console off whose instance goes.

    If that fails the instance goes all the same, and a warning says so.

    :param held: read just now, with its console on.
    :raises WaitCancelled: the service stops.
    """
    instance, uuid = held.instance, held.uuid
    held = _HeldConsole(site, instance, held.node, _LEFT_ON)
    try:
        held.let_go()
        held.switch_off()
    except exceptions.WaitCancelled:
        raise
    except (exceptions.NodeError, exceptions.IronicError) as exc:
        LOG.warning(
            "[console-left-on] Instance %s, node %s: its console can't be switched off "
            "before the instance goes, so who has it may have that of the node's next "
            "instance: %s. %s",
            *(instance.uuid, uuid, exc, _REMEDY.format(uuid)),
        )
        return
    LOG.info("Instance %s, node %s: its console is off", instance.uuid, uuid)


def _at_rest(site: Site, instance: InstanceLike, kind: _Kind) -> _HeldConsole:
    """The node that carries the instance, past the guard, when it is not locked."""
    held = _HeldConsole(site, instance, site.nodes.read_carrier(instance), kind)
    if held.node.reservation is not None:
        held.let_go()
        held.refresh()
    return held


class _HeldConsole(Held):
    """The node whose console it is, and which kind is wanted."""

    def __init__(self, site: Site, instance: InstanceLike, node: Node, kind: _Kind) -> None:
        super().__init__(site, instance, node)
        self._kind = kind
        # 0: no limit.
        option = kind.option
        self._timeout: float = getattr(site.conf.ironic, option) if option else _LONGEST_OFF

    # -- where it is ----------------------------------------------------------

    def info(self) -> ConsoleInfo:
        """What Ironic says of a console that is on, and of the kind that is wanted."""
        with self._refused("gives no information on"):
            info = self._site.client.consoles.get(self.uuid)
        if not info.enabled:
            raise self._unavailable("the console was switched off meanwhile; try again")
        if info.kind != self._kind.in_ironic:
            has = f"is of type {info.kind!r}" if info.kind else "has no address"
            raise self._unavailable(
                f"the node's console {has}, and {self._kind.in_ironic!r} is wanted: "
                "see the node's console_interface"
            )
        return info

    def tcp_address(self) -> tuple[str, int]:
        """Host and port of a console that is a stream of TCP."""
        info = self.info()
        try:
            url = urllib.parse.urlsplit(info.url or "")
            if url.scheme == "tcp" and url.hostname and url.port:
                return url.hostname, url.port
        except ValueError:
            pass
        raise self._unavailable(f"its address {info.url!r} is not like 'tcp://host:port'")

    def vnc_address(self) -> ConsoleAddress:
        """Host and port of the VNC server, and the URL of Ironic's page."""
        info = self.info()
        with self._refused("gives no information on"):
            host, port = self._site.client.consoles.vnc_address(self.uuid)
        if not host or port is None:
            raise self._unavailable(
                "Ironic has noted no vnc_host and vnc_port in the node's driver_internal_info"
            )
        return ConsoleAddress("vnc", host, port, url=info.url)

    # -- on and off -----------------------------------------------------------

    def let_go(self) -> None:
        """Wait until the node is not locked any more: Ironic would forget what it is asked for."""
        if locked_by := self.node.reservation:
            self._wait_until(lambda node: node.reservation is None, f"be unlocked by {locked_by}")

    @contextlib.contextmanager
    def switched_on(self) -> Iterator[None]:
        """Switch it on, and off again if that or the block fails."""
        self._ask(on=True)
        try:
            self._reached(on=True)
            yield
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            self._off_again(exc)
            raise

    def switch_off(self) -> None:
        """Switch it off, and return when it is."""
        self._ask(on=False)
        self._reached(on=False)

    def _off_again(self, error: Exception) -> None:
        try:
            node = self.refresh()
            if node.reservation is None:
                if node.console_enabled:
                    self._site.client.single_try().consoles.switch(node.uuid, False)
                return
            # Ironic would accept the request, and forget it.
            why = f"{node.reservation} holds the node"
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            why = str(exc)
        LOG.warning(
            "[console-left-on] Instance %s, node %s: the console may still be on, because "
            "switching it off failed: %s. %s",
            *(self.instance.uuid, self.uuid, why, _REMEDY.format(self.uuid)),
        )
        error.add_note("It may be left on")

    def _ask(self, *, on: bool) -> None:
        began = self._site.clock()

        def check_deadline(node: Node) -> None:
            passed = self._site.clock() - began
            if self._timeout and passed >= self._timeout:
                goal = f"be unlocked by {node.reservation}{self._kind.bound}"
                raise self.error(exceptions.WaitTimeout, goal, passed, node.states)

        with self._refused("refuses to switch on" if on else "refuses to switch off"):
            self.only_if(check_deadline).client.consoles.switch(self.uuid, on)

    def _reached(self, *, on: bool) -> None:
        def until(node: Node) -> bool:
            # Ironic holds the node's lock from taking the request until its end.
            if node.reservation is not None:
                return False
            if node.console_enabled == on:
                return True
            if node.hides_lock:
                # It is not known whether Ironic has begun.
                return False
            change = "switched on" if on else "switched off"
            raise self._unavailable(f"the console could not be {change}: {node.why}")

        self._wait_until(until, f"have its console {'on' if on else 'off'}")

    def _wait_until(self, until: Callable[[Node], bool], what: str) -> None:
        def there(node: Node | None) -> bool | None:
            if node is None or node.instance_uuid != self.instance.uuid:
                raise self._unavailable("the server went off the node meanwhile")
            return until(node) or None

        state = self.node.provision_state
        goal = f"{what}{self._kind.bound}"
        self.wait(there, goal, self._timeout, kind="console", state=state)

    # -- errors ---------------------------------------------------------------

    def _unavailable(self, reason: str) -> exceptions.NodeError:
        """The error that says why there is no console."""
        return self.error(exceptions.ConsoleUnavailable, self._kind.name, reason)

    def _refused(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Turn a refusal in the block into ConsoleUnavailable: "Ironic ``what`` the console"."""
        return self.refused_as(
            exceptions.ConsoleUnavailable,
            f"Ironic {what} the console",
            self._kind.name,
            when=is_refusal,
        )
