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
from ironic_virt.driver.change import Change, is_refusal
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

        :raises InstanceNotFound: no node carries it.
        :raises ConsoleUnavailable, WaitTimeout: there is none.
        :raises NodeNotOurs: the node is outside the target set; nothing was done.
        """
        found = self._at_rest(instance, _SERIAL)
        if found.node.console_enabled:
            self._info(found)
            self._switch(found, on=False)
        with self._switched_on(found):
            host, port = _tcp(self._info(found), found)
        LOG.info("Instance %s, node %s: its serial console is on", instance.uuid, found.node.uuid)
        return ConsoleAddress("serial", host, port)

    def vnc(self, instance: InstanceLike) -> ConsoleAddress:
        """The graphical console: a VNC server, and the page of Ironic's own proxy to it.

        :raises InstanceNotFound: no node carries it.
        :raises ConsoleUnavailable, WaitTimeout: there is none.
        :raises NodeNotOurs: the node is outside the target set; nothing was done.
        """
        found = self._at_rest(instance, _VNC)
        if found.node.console_enabled:
            return self._vnc_address(found)
        with self._switched_on(found):
            address = self._vnc_address(found)
        LOG.info("Instance %s, node %s: its VNC console is on", instance.uuid, found.node.uuid)
        return address

    def switch_off(self, node: Node, instance: InstanceLike) -> None:
        """Switch a console off whose instance goes.

        If that fails the instance goes all the same, and a warning says so.

        :param node: past the guard, read just now, with its console on.
        :raises WaitCancelled: the service stops.
        """
        found = _Found(self._site, instance, node, _LEFT_ON)
        try:
            self._let_go(found)
            self._switch(found, on=False)
        except exceptions.WaitCancelled:
            raise
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            LOG.warning(
                "[console-left-on] Instance %s, node %s: its console can't be switched off "
                "before the instance goes, so who has it may have that of the node's next "
                "instance: %s. Switch it off in Ironic: openstack baremetal node console disable "
                "%s",
                *(instance.uuid, node.uuid, exc, node.uuid),
            )
            return
        LOG.info("Instance %s, node %s: its console is off", instance.uuid, node.uuid)

    # -- where it is ----------------------------------------------------------

    def _info(self, found: _Found) -> ConsoleInfo:
        """What Ironic says of a console that is on, and of the kind that is wanted."""
        kind = found.kind
        with found.refused("gives no information on"):
            info = self._site.client.consoles.get(found.node.uuid)
        if not info.enabled:
            raise found.unavailable("somebody has switched the console off meanwhile; ask again")
        if info.kind != kind.in_ironic:
            has = f"is of type {info.kind!r}" if info.kind else "has no address"
            raise found.unavailable(
                f"the node's console {has}, and {kind.in_ironic!r} is wanted: "
                "see the node's console_interface"
            )
        return info

    def _vnc_address(self, found: _Found) -> ConsoleAddress:
        info = self._info(found)
        with found.refused("gives no information on"):
            host, port = self._site.client.consoles.vnc_address(found.node.uuid)
        if not host or port is None:
            raise found.unavailable(
                "Ironic has noted no vnc_host and vnc_port in the node's driver_internal_info"
            )
        return ConsoleAddress("vnc", host, port, url=info.url)

    # -- on and off -----------------------------------------------------------

    def _at_rest(self, instance: InstanceLike, kind: _Kind) -> _Found:
        """The node that carries the instance, past the guard, when it is not locked."""
        node = self._site.access.guarded(instance)
        found = _Found(self._site, instance, node, kind)
        if node.reservation is not None:
            self._let_go(found)
            found.look()
        return found

    def _let_go(self, found: _Found) -> None:
        """Wait until a node is not locked any more: Ironic would forget what it is asked for."""
        if locked_by := found.node.reservation:
            self._wait_until(found, _unlocked, f"be unlocked by {locked_by}")

    @contextlib.contextmanager
    def _switched_on(self, found: _Found) -> Iterator[None]:
        """Switch it on, and off again if that or the block fails."""
        self._ask(found, on=True)
        try:
            self._reached(found, on=True)
            yield
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            self._off_again(found, exc)
            raise

    def _off_again(self, found: _Found, error: Exception) -> None:
        try:
            now = found.look()
            if now.reservation is not None:
                # Ironic would accept the request, and forget it.
                why = f"{now.reservation} holds the node"
            elif now.console_enabled:
                self._site.client.single_try().consoles.switch(now.uuid, False)
                return
            else:
                return
        except (exceptions.NodeError, exceptions.IronicError) as exc:
            why = str(exc)
        LOG.warning(
            "[console-left-on] Instance %s, node %s: its console may be left on, for it can't be "
            "switched off: %s",
            *(found.instance.uuid, found.node.uuid, why),
        )
        error.add_note("It may be left on")

    def _switch(self, found: _Found, *, on: bool) -> None:
        self._ask(found, on=on)
        self._reached(found, on=on)

    def _timeout(self, kind: _Kind) -> float:
        """Seconds that a change may take; 0: no limit."""
        option = kind.option
        return float(getattr(self._site.conf.ironic, option)) if option else _LONGEST_OFF

    def _ask(self, found: _Found, *, on: bool) -> None:
        timeout = self._timeout(found.kind)
        began = self._site.clock()
        uuid = found.node.uuid

        def again() -> None:
            now = found.look()
            passed = self._site.clock() - began
            if timeout and passed >= timeout:
                what = f"be unlocked by {now.reservation}{found.kind.bound}"
                raise found.error(exceptions.WaitTimeout, what, passed, now.states)

        with found.refused("refuses to switch on" if on else "refuses to switch off"):
            self._site.client.consoles.switch(uuid, on, again=again)

    def _reached(self, found: _Found, *, on: bool) -> None:
        def until(now: Node) -> bool:
            # Ironic holds the node's lock from taking the request until its end.
            if now.reservation is not None:
                return False
            if now.console_enabled == on:
                return True
            if now.hides_lock:
                # It is not known whether Ironic has begun.
                return False
            done = "switched on" if on else "switched off"
            raise found.unavailable(f"the console could not be {done}: {now.why}")

        self._wait_until(found, until, f"have its console {'on' if on else 'off'}")

    def _wait_until(self, found: _Found, until: Callable[[Node], bool], what: str) -> None:
        def there(now: Node | None) -> bool | None:
            if now is None or now.instance_uuid != found.instance.uuid:
                raise found.unavailable("the server went off the node meanwhile")
            return until(now) or None

        found.wait(
            there,
            f"{what}{found.kind.bound}",
            self._timeout(found.kind),
            kind="console",
            state=found.node.provision_state,
        )


class _Found(Change):
    """The node whose console it is, and which kind is wanted."""

    def __init__(self, site: Site, instance: InstanceLike, node: Node, kind: _Kind) -> None:
        super().__init__(site, instance, node)
        self.kind = kind

    def unavailable(self, reason: str) -> exceptions.NodeError:
        """The error that says why there is no console."""
        return self.error(exceptions.ConsoleUnavailable, self.kind.name, reason)

    def refused(self, what: str) -> contextlib.AbstractContextManager[None]:
        """See :meth:`Change.refused_as`; ``what`` is between Ironic and the console."""
        said = f"Ironic {what} the console"
        return self.refused_as(
            exceptions.ConsoleUnavailable, said, self.kind.name, when=is_refusal
        )


def _unlocked(node: Node) -> bool:
    return node.reservation is None


def _tcp(info: ConsoleInfo, found: _Found) -> tuple[str, int]:
    """Host and port of a console that is a stream of TCP."""
    try:
        url = urllib.parse.urlsplit(info.url or "")
        if url.scheme == "tcp" and url.hostname and url.port:
            return url.hostname, url.port
    except ValueError:
        pass
    raise found.unavailable(f"its address {info.url!r} is not like 'tcp://host:port'")
