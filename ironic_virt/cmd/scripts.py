# SPDX-License-Identifier: Apache-2.0

"""The console scripts; each imports what it runs.

That takes some tenths of a second, in which Ctrl-C would show a traceback of the import: until
it is done, Ctrl-C ends the process without a word.
"""

import functools
import importlib
import signal


def _run_main(module: str) -> int:
    """Import a module of this room and run its ``main``."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = importlib.import_module(f"ironic_virt.cmd.{module}").main
    signal.signal(signal.SIGINT, before)
    code: int = main()
    return code


ironic_virt = functools.partial(_run_main, "shell")
compute = functools.partial(_run_main, "compute")
fake_ironic = functools.partial(_run_main, "fake_ironic")
fleet = functools.partial(_run_main, "fleet")
manage = functools.partial(_run_main, "manage")
status = functools.partial(_run_main, "status")
