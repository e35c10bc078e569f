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
    """Finds consoles.  Thread-safe: it keeps nothing between calls."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def serial(self, instance: InstanceLike) -> ConsoleAddress:
        """The serial console; a session of somebody else ends.

        :raises ConsoleUnavailable, WaitTimeout: there is none.
        """
        held = self._at_rest(instance, _SERIAL)
        if held.node.console_enabled:
            self._info(held)
            self._switch(held, on=False)
        with self._switched_on(held):
            host, port = _tcp(self._info(held), held)
        LOG.info("Instance %s, node %s: its serial console is on", instance.uuid, held.uuid)
        return ConsoleAddress("serial", host, port)

    def vnc(self, instance: InstanceLike) -> ConsoleAddress:
        """The graphical console: a VNC server, and the page of Ironic's own proxy to it.

        :raises ConsoleUnavailable, WaitTimeout: there is none.
        """
        held = self._at_rest(instance, _VNC)
        if held.node.console_enabled:
            return self._vnc_address(held)
        with self._switched_on(held):
            address = self._vnc_address(held)
        LOG.info("Instance %s, node %s: its VNC console is on", instance.uuid, held.uuid)
        return address

    def switch_off(self, held: Held) -> None:
        """Switch a console off whose instance goes.

        If that fails the instance goes all the same, and a warning says so.

        :param held: read just now, with its console on.
        :raises WaitCancelled: the service stops.
        """
        instance, uuid = held.instance, held.uuid
        held = _HeldConsole(self._site, instance, held.node, _LEFT_ON)
        try:
            self._let_go(held)
            self._switch(held, on=False)
        except exceptions.WaitCancelled:
            raise
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            LOG.warning(
                "[console-left-on] Instance %s, node %s: its console can't be switched off "
                "before the instance goes, so who has it may have that of the node's next "
                "instance: %s. Switch it off in Ironic: openstack baremetal node console disable "
                "%s",
                *(instance.uuid, uuid, exc, uuid),
            )
            return
        LOG.info("Instance %s, node %s: its console is off", instance.uuid, uuid)

    # -- where it is ----------------------------------------------------------

    def _info(self, held: _HeldConsole) -> ConsoleInfo:
        """What Ironic says of a console that is on, and of the kind that is wanted."""
        kind = held.kind
        with held.refused("gives no information on"):
            info = self._site.client.consoles.get(held.uuid)
        if not info.enabled:
            raise held.unavailable("the console was switched off meanwhile; try again")
        if info.kind != kind.in_ironic:
            has = f"is of type {info.kind!r}" if info.kind else "has no address"
            raise held.unavailable(
                f"the node's console {has}, and {kind.in_ironic!r} is wanted: "
                "see the node's console_interface"
            )
        return info

    def _vnc_address(self, held: _HeldConsole) -> ConsoleAddress:
        info = self._info(held)
        with held.refused("gives no information on"):
            host, port = self._site.client.consoles.vnc_address(held.uuid)
        if not host or port is None:
            raise held.unavailable(
                "Ironic has noted no vnc_host and vnc_port in the node's driver_internal_info"
            )
        return ConsoleAddress("vnc", host, port, url=info.url)

    # -- on and off -----------------------------------------------------------

    def _at_rest(self, instance: InstanceLike, kind: _Kind) -> _HeldConsole:
        """The node that carries the instance, past the guard, when it is not locked."""
        node = self._site.nodes.read_carrier(instance)
        held = _HeldConsole(self._site, instance, node, kind)
        if node.reservation is not None:
            self._let_go(held)
            held.refresh()
        return held

    def _let_go(self, held: _HeldConsole) -> None:
        """Wait until a node is not locked any more: Ironic would forget what it is asked for."""
        if locked_by := held.node.reservation:
            self._wait_until(
                held, lambda node: node.reservation is None, f"be unlocked by {locked_by}"
            )

    @contextlib.contextmanager
    def _switched_on(self, held: _HeldConsole) -> Iterator[None]:
        """Switch it on, and off again if that or the block fails."""
        self._ask(held, on=True)
        try:
            self._reached(held, on=True)
            yield
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            self._off_again(held, exc)
            raise

    def _off_again(self, held: _HeldConsole, error: Exception) -> None:
        try:
            node = held.refresh()
            if node.reservation is not None:
                # Ironic would accept the request, and forget it.
                why = f"{node.reservation} holds the node"
            elif node.console_enabled:
                self._site.client.single_try().consoles.switch(node.uuid, False)
                return
            else:
                return
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            why = str(exc)
        LOG.warning(
            "[console-left-on] Instance %s, node %s: the console may still be on, because "
            "switching it off failed: %s",
            *(held.instance.uuid, held.uuid, why),
        )
        error.add_note("It may be left on")

    def _switch(self, held: _HeldConsole, *, on: bool) -> None:
        self._ask(held, on=on)
        self._reached(held, on=on)

    def _timeout(self, kind: _Kind) -> float:
        """Seconds that a change may take; 0: no limit."""
        option = kind.option
        return float(getattr(self._site.conf.ironic, option)) if option else _LONGEST_OFF

    def _ask(self, held: _HeldConsole, *, on: bool) -> None:
        timeout = self._timeout(held.kind)
        began = self._site.clock()

        def check_deadline(node: Node) -> None:
            passed = self._site.clock() - began
            if timeout and passed >= timeout:
                goal = f"be unlocked by {node.reservation}{held.kind.bound}"
                raise held.error(exceptions.WaitTimeout, goal, passed, node.states)

        with held.refused("refuses to switch on" if on else "refuses to switch off"):
            held.only_if(check_deadline).client.consoles.switch(held.uuid, on)

    def _reached(self, held: _HeldConsole, *, on: bool) -> None:
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
            raise held.unavailable(f"the console could not be {change}: {node.why}")

        self._wait_until(held, until, f"have its console {'on' if on else 'off'}")

    def _wait_until(self, held: _HeldConsole, until: Callable[[Node], bool], what: str) -> None:
        def there(node: Node | None) -> bool | None:
            if node is None or node.instance_uuid != held.instance.uuid:
                raise held.unavailable("the server went off the node meanwhile")
            return until(node) or None

        held.wait(
            there,
            f"{what}{held.kind.bound}",
            self._timeout(held.kind),
            kind="console",
            state=held.node.provision_state,
        )


class _HeldConsole(Held):
    """The node whose console it is, and which kind is wanted."""

    def __init__(self, site: Site, instance: InstanceLike, node: Node, kind: _Kind) -> None:
        super().__init__(site, instance, node)
        self.kind = kind

    def unavailable(self, reason: str) -> exceptions.NodeError:
        """The error that says why there is no console."""
        return self.error(exceptions.ConsoleUnavailable, self.kind.name, reason)

    def refused(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Turn a refusal in the block into ConsoleUnavailable: "Ironic ``what`` the console"."""
        return self.refused_as(
            exceptions.ConsoleUnavailable,
            f"Ironic {what} the console",
            self.kind.name,
            when=is_refusal,
        )


def _tcp(info: ConsoleInfo, held: _HeldConsole) -> tuple[str, int]:
    """Host and port of a console that is a stream of TCP."""
    try:
        url = urllib.parse.urlsplit(info.url or "")
        if url.scheme == "tcp" and url.hostname and url.port:
            return url.hostname, url.port
    except ValueError:
        pass
    raise held.unavailable(f"its address {info.url!r} is not like 'tcp://host:port'")
