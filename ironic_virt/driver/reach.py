# SPDX-License-Identifier: Apache-2.0

"""Whether this process reaches what its work needs: Ironic, and what its service needs.

Only for a standby: the active process and those that wait look all the time, so that the lease
goes to one that can work.
"""

from __future__ import annotations

import contextlib
import math
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from ironic_virt import virt
from ironic_virt.baremetal.client import IronicClient

if TYPE_CHECKING:
    from ironic_virt.standby import Lease

PERIOD = 10.0
"""Seconds between two looks."""

ANSWER_SECONDS = 10.0
"""For an answer of Ironic."""


class Reach:
    """What was reached, and when.

    :param looks: by the name of what is looked at; each returns, or raises any error, within
        seconds.
    :param clock: of the lease.
    """

    def __init__(
        self, looks: Mapping[str, Callable[[], object]], clock: Callable[[], float]
    ) -> None:
        self._looks = looks
        self._clock = clock
        self._reached_at: dict[str, float] = {}

    def begin(self, threads: Any = threading) -> None:
        """Look from now on, at each thing in a separate thread.

        :param threads: Python's own module, also under eventlet: nothing green stops them.
        """
        pause = threads.Event()

        def look_again(name: str) -> None:
            while True:
                self.look(name)
                pause.wait(PERIOD)

        for name in self._looks:
            threads.Thread(
                target=look_again, args=(name,), name=f"ironic-virt-reach-{name}", daemon=True
            ).start()

    def look(self, name: str) -> None:
        """Look once."""
        with contextlib.suppress(Exception):
            self._looks[name]()
            self._reached_at[name] = self._clock()

    def lacks(self, seconds: float) -> str:
        """The names of what was not reached for so long."""
        since = self._clock() - seconds
        return ", ".join(
            name for name in self._looks if self._reached_at.get(name, -math.inf) < since
        )


def lease_of(conf: cfg.ConfigOpts, virtapi: virt.VirtAPI) -> Lease | None:
    """The lease that the options name; ``None``: there is no standby.

    :raises InvalidConfiguration: its backend can't hold a lease, or its packages are missing.
    """
    ours = conf.ironic
    if not ours.standby_backend_url:
        return None
    # It imports tooz, which only a standby needs.
    from ironic_virt import standby

    reach = None
    if ours.standby_hand_over_after:
        # A separate client, which no lease guards and which never waits for the driver's requests.
        client = IronicClient.from_conf(conf).single_try().within(ANSWER_SECONDS)
        looks = {"Ironic": lambda: client.node_of_instance(str(uuid.UUID(int=0)))}
        reach = Reach({**looks, **virtapi.needs()}, standby.boottime)
    lock = standby.ToozLock(ours.standby_backend_url, ours.standby_ttl, ours.standby_namespace)
    return standby.Lease(lock, lock.timing, reach, ours.standby_hand_over_after)
