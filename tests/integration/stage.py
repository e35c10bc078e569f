# SPDX-License-Identifier: Apache-2.0

"""Where a test begins: a real Ironic with nodes, a compute service, and somebody else."""

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import virt
from tests.crashing import Crash
from tests.integration.services import Operator, Service, dying_service, new_nodes, write_conf
from tools import real_ironic

MOST_REQUESTS = 40
"""More than anything takes at which a service may die."""


class Stage:
    """What a test is given; its services end with it.

    :ivar operator: somebody else.
    :ivar directory: for the files of the test's services.
    :ivar config: the operator's file.
    """

    def __init__(self, ironic: real_ironic.RealIronic, directory: Path, **options: Any) -> None:
        self.ironic = ironic
        self.operator = Operator(ironic)
        self.config = write_conf(directory, ironic, **options)
        self.directory = directory
        self._services: list[Service] = []

    @functools.cached_property
    def service(self) -> Service:
        """A compute service."""
        return self.another_service()

    def another_service(self, **options: Any) -> Service:
        """One more compute service; with its own options, if there are any."""
        config = self.config
        if options:
            directory = Path(tempfile.mkdtemp(dir=self.directory))
            config = write_conf(directory, self.ironic, **options)
        self._services.append(Service(config))
        return self._services[-1]

    def node(self, **like: Any) -> str:
        """A new node that is free.

        :param like: see :class:`real_ironic.NodeTemplate`.
        """
        [node] = new_nodes(self.ironic, 1, **like)
        return node

    def instance(self, **like: Any) -> virt.Instance:
        """A new instance, placed on its own node."""
        return self.service.instance_on(self.node(**like))

    def active(self, **like: Any) -> virt.Instance:
        """A new instance without VIFs that is active on its own node."""
        instance = self.instance(**like)
        self.service.spawn(instance, [])
        return instance

    def after_deaths(
        self,
        make: Callable[[], virt.Instance],
        act: Callable[[Service, virt.Instance], Any],
        *,
        after: bool,
        starting: bool = True,
    ) -> Iterator[tuple[str, virt.Instance, Service]]:
        """Have a service die at its first request, then another at its second, until one doesn't.

        :param make: makes what the next one acts on.
        :param after: each dies when the request was carried out, not before.
        :param starting: see :func:`dying_service`.
        :returns: after each death: the request, the instance and a service that was started then.
        """
        deaths: list[str] = []
        for at in range(1, MOST_REQUESTS):
            instance = make()
            try:
                dying = dying_service(self.config, at, after=after, starting=starting)
                try:
                    act(dying, instance)
                finally:
                    dying.driver.cleanup_host()
            except Crash as crash:
                deaths.append(str(crash))
            else:
                return
            restarted = Service(self.config)
            yield deaths[-1], instance, restarted
            restarted.driver.cleanup_host()
        pytest.fail(f"it died at each of these requests, and there are more: {deaths}")

    def close(self) -> None:
        """End the services."""
        for service in self._services:
            service.driver.cleanup_host()
