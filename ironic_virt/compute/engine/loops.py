# SPDX-License-Identifier: Apache-2.0

"""A thread that does something again and again, and sooner when it is woken.

It continues after an error: the error is logged and the next round comes as
usual.  Only the errors that are named as fatal end it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Loop:
    """Calls ``action`` at once when started, and then at each interval.

    :param name: of the thread, and in the log.
    :param interval: seconds between the end of a round and the next one, asked
        before each wait; 0: only when woken.
    :param fatal: kinds of errors that end the loop.
    :param on_fatal: called with such an error, in the loop's thread.
    """

    def __init__(
        self,
        name: str,
        action: Callable[[], None],
        interval: Callable[[], float],
        *,
        fatal: tuple[type[Exception], ...] = (),
        on_fatal: Callable[[Exception], None] = lambda _error: None,
    ) -> None:
        self._action = action
        self._interval = interval
        self._last_interval = 60.0
        self._fatal = fatal
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

    def stop(self) -> None:
        """Begin no round any more; returns at once."""
        self._stopped = True
        self._woken.set()

    def join(self, timeout: float) -> bool:
        """Wait for the end of a round that is under way.

        :returns: whether it has ended.
        """
        if self._thread.ident is not None:
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
            except self._fatal as error:
                self._on_fatal(error)
                return
            except Exception:
                LOG.exception(
                    "[unexpected-error] %s: a round failed; the next one comes", self._thread.name
                )
            self._woken.wait(self._seconds())

    def _seconds(self) -> float | None:
        try:
            self._last_interval = self._interval()
        except ValueError as error:
            # A file that was changed while we run may hold anything.
            LOG.error(
                "[option-refused] %s: the previous interval stays: %s", self._thread.name, error
            )
        return self._last_interval or None
