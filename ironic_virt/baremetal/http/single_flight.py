# SPDX-License-Identifier: Apache-2.0

"""One request at a time: all callers that come meanwhile share its answer or its error.

No lock is held meanwhile.  Later callers wait for the end of the request that is under way,
so a server that does not answer costs all of them one timeout together.

Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent import futures
from typing import Generic, TypeVar

from ironic_virt import exceptions

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs one call at a time and shares its result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: futures.Future[T] | None = None

    def run(self, ask: Callable[[], T]) -> T:
        """Call ``ask``, or wait for the call that is under way.

        :returns: the result of that one call.
        :raises Exception: the error of that one call; each caller gets a separate copy.
        """
        while True:
            with self._lock:
                flight = self._under_way
                leads = flight is None
                if flight is None:
                    flight = self._under_way = futures.Future()
            if leads:
                return self._lead(flight, ask)
            try:
                return flight.result()
            except futures.CancelledError:
                continue
            except Exception as exc:
                raise exceptions.copy_of(exc) from exc.__cause__

    def _lead(self, flight: futures.Future[T], ask: Callable[[], T]) -> T:
        try:
            answer = ask()
        except Exception as exc:
            self._land()
            flight.set_exception(exc)
            raise exceptions.copy_of(exc) from exc.__cause__
        except BaseException:
            # This thread is being ended: one of the waiting callers takes over.
            self._land()
            flight.cancel()
            raise
        self._land()
        flight.set_result(answer)
        return answer

    def _land(self) -> None:
        with self._lock:
            self._under_way = None
