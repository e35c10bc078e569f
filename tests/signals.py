# SPDX-License-Identifier: Apache-2.0

"""Signals as they usually are, wherever the tests were started.

nohup has its children ignore SIGHUP, and a shell those SIGINT that it starts in the
background; who starts processes hands that on to them.
"""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def heard(*signums: signal.Signals) -> Iterator[None]:
    """Have signals that are ignored do what they usually do, here and in new processes."""
    ignored = [one for one in signums if signal.getsignal(one) is signal.SIG_IGN]
    for signum in ignored:
        usual = signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL
        signal.signal(signum, usual)
    try:
        yield
    finally:
        for signum in ignored:
            signal.signal(signum, signal.SIG_IGN)
