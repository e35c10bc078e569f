# SPDX-License-Identifier: Apache-2.0

"""A thread that does something again and again, and sooner when it is woken.

It continues after an error: the error is logged and the next round comes as
usual.  Only another process that has taken the service over ends it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from oslo_log import log as logging

from ironic_virt.compute.errors import ServiceSuperseded

LOG = logging.getLogger(__name__)


class Loop:
    """Calls ``action`` at once when started, and then at each interval.

    :param name: of the thread, and in the log.
    :param interval: seconds between the end of a round and the next one, asked
        before each wait; 0: only when woken.
    :param on_fatal: called in the loop's thread with the error that ends it.
    """

    def __init__(
        self,
        name: str,
        action: Callable[[], None],
        interval: Callable[[], float],
        on_fatal: Callable[[Exception], None],
    ) -> None:
        self._action = action
        self._interval = interval
        self._last_interval = 60.0
        self._on_fatal = on_fatal
        self._woken = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"ironic-virt-{name}", daemon=True)

    def start(self) -> None:
        """Begin with the first round."""
        self._thread.start()

    def wake(self) -> None:
        """Have a round begin now, or another one right after that which is under way."""
        self._woken.set()

    def stop(self, timeout: float = 0.0) -> bool:
        """Begin no round any more.

        :param timeout: seconds to wait for a round that is under way.
        :returns: whether it has ended.
        """
        self._stopped = True
        self._woken.set()
        if timeout and self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self._woken.clear()
            # Looked at after that: whoever stops it wakes it afterwards.
            if self._stopped:
                return
            try:
                self._action()
            except ServiceSuperseded as error:
                self._on_fatal(error)
                return
            except Exception:
                LOG.exception(
                    "[unexpected-error] %s: a round failed; the next one comes", self._thread.name
                )
            try:
                self._last_interval = self._interval()
            except ValueError as error:
                # A file that was changed while we run may hold anything.
                LOG.error(
                    "[option-refused] %s: the previous interval stays: %s",
                    *(self._thread.name, error),
                )
            self._woken.wait(self._last_interval or None)
