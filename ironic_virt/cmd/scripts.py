# SPDX-License-Identifier: Apache-2.0

"""The console scripts, each of which imports what it runs.

That takes some tenths of a second, in which Ctrl-C would show a traceback of the import: until
it is done, Ctrl-C ends the process without a word.
"""

import importlib
import signal


def _run(module: str) -> int:
    """Import a module of this room and run its ``main``."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = importlib.import_module(f"ironic_virt.cmd.{module}").main
    signal.signal(signal.SIGINT, before)
    code: int = main()
    return code


def ironic_virt() -> int:
    """Run ``ironic-virt``."""
    return _run("shell")


def compute() -> int:
    """Run ``ironic-virt-compute``."""
    return _run("compute")


def fake_ironic() -> int:
    """Run ``ironic-virt-fake-ironic``."""
    return _run("fake_ironic")


def fault_proxy() -> int:
    """Run ``ironic-virt-fault-proxy``."""
    return _run("fault_proxy")


def fleet() -> int:
    """Run ``ironic-virt-fleet``."""
    return _run("fleet")


def manage() -> int:
    """Run ``ironic-virt-manage``."""
    return _run("manage")


def status() -> int:
    """Run ``ironic-virt-status``."""
    return _run("status")
