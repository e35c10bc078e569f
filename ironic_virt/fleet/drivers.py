# SPDX-License-Identifier: Apache-2.0

"""Asks Nova's own driver and ours the same questions, in this process, and changes nothing.

Both read one configuration, that of a service, and the records of its cell.  Whatever either
would send to change something is refused before it is sent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import requests
from keystoneauth1 import session as ksa
from keystoneauth1.identity.base import BaseIdentityPlugin
from nova import context as nova_context
from nova import objects
from nova.compute import provider_tree
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.fleet.cells import Cell
from ironic_virt.fleet.shadow import Cost, Offered, Side

_READS = ("GET", "HEAD", "OPTIONS")

Progress = Callable[[str, int, int], None]


class ReadOnly(exceptions.IronicVirtError):
    """A driver wanted to change something."""


@contextlib.contextmanager
def _only_looking() -> Iterator[Counter[str]]:
    """Count the requests of this process, and refuse those that change something.

    What is sent for a token is let through, and not counted, whatever the plugin sends it to.
    """
    traffic: Counter[str] = Counter()
    send = requests.Session.send
    asking = threading.local()

    def for_a_token(original: Any) -> Any:
        def asked(*args: Any, **kwargs: Any) -> Any:
            asking.depth = getattr(asking, "depth", 0) + 1
            try:
                return original(*args, **kwargs)
            finally:
                asking.depth -= 1

        return asked

    def watched(
        session: requests.Session, request: requests.PreparedRequest, **kwargs: Any
    ) -> requests.Response:
        if getattr(asking, "depth", 0):
            return send(session, request, **kwargs)
        if request.method not in _READS:
            raise ReadOnly(f"{request.method} {request.url} was not sent: this only looks")
        answer = send(session, request, **kwargs)
        traffic["requests"] += 1
        traffic["received"] += int(answer.headers.get("Content-Length") or 0)
        return answer

    # Nova's own driver warns of nodes at each question, and these are asked anyhow.
    log = logging.getLogger("nova.virt.ironic")
    level = log.level
    log.setLevel(logging.ERROR)
    with contextlib.ExitStack() as stack:
        for owner, name, function in (
            (requests.Session, "send", watched),
            # Some plugins ask in the one, some in the other.
            (BaseIdentityPlugin, "get_access", for_a_token(BaseIdentityPlugin.get_access)),
            (ksa.Session, "get_auth_headers", for_a_token(ksa.Session.get_auth_headers)),
        ):
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, function)
        stack.callback(log.setLevel, level)
        yield traffic


@contextlib.contextmanager
def records_of(cell: Cell) -> Iterator[None]:
    """Have code that knows no cells read the records of one."""
    get_admin_context = nova_context.get_admin_context

    def targeted(*args: Any, **kwargs: Any) -> Any:
        context = get_admin_context(*args, **kwargs)
        context.db_connection = cell.context.db_connection
        context.cell_uuid = cell.context.cell_uuid
        return context

    nova_context.get_admin_context = targeted
    try:
        yield
    finally:
        nova_context.get_admin_context = get_admin_context


def in_tree(conf: cfg.ConfigOpts, progress: Progress) -> Side:
    """What Nova's own driver says.

    :param conf: Nova's, with the host and the options of the service.
    """
    from nova.virt.ironic import driver

    def make() -> Any:
        made = driver.IronicDriver(None)
        made.init_host(conf.host)
        return made

    return _asked(make, conf.host, "Nova's own driver: nodes", progress)


def ours(conf: cfg.ConfigOpts, progress: Progress) -> Side:
    """What our driver says.

    It is not started as a service starts it: that may rename records.
    """
    from ironic_virt.nova.driver import IronicDriver

    def make() -> Any:
        made = IronicDriver(None)
        made._records.host = conf.host
        return made

    return _asked(make, conf.host, "This driver: nodes", progress)


def _asked(make: Callable[[], Any], host: str, what: str, progress: Progress) -> Side:
    began, cpu = time.monotonic(), time.process_time()
    with _only_looking() as traffic:
        side = _answers(make, host, what, progress)
    spent = round(time.process_time() - cpu, 3), round(time.monotonic() - began, 3)
    cost = Cost(traffic["requests"], traffic["received"], *spent)
    return dataclasses.replace(side, cost=cost)


def _answers(make: Callable[[], Any], host: str, what: str, progress: Progress) -> Side:
    try:
        made = make()
        names = made.get_available_nodes()
    except Exception as exc:
        return Side(error=f"{type(exc).__name__}: {exc}")
    nodes = {}
    for name in names:
        nodes[name] = _offered(made, name)
        progress(what, len(nodes), len(names))
    return Side(nodes, *_servers(made, host))


def _offered(made: Any, name: str) -> Offered:
    try:
        resource: Mapping[str, Any] = made.get_available_resource(name)
        tree = provider_tree.ProviderTree()
        tree.new_root(name, name)
        made.update_provider_tree(tree, name)
    except Exception as exc:
        return Offered(error=type(exc).__name__)
    data = tree.data(name)
    return Offered(dict(data.inventory), frozenset(data.traits), resource)


def _servers(made: Any, host: str) -> tuple[frozenset[str], dict[str, int]]:
    known = objects.InstanceList.get_by_host(
        nova_context.get_admin_context(), host, expected_attrs=[]
    )
    listed = frozenset(made.list_instance_uuids())
    power = {one.uuid: int(made.get_info(one).state) for one in known}
    return listed & power.keys(), power
