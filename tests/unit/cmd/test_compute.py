# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-compute`` while it starts."""

import signal
import subprocess
import sys
from collections.abc import Sequence

from ironic_virt.cmd import compute


def test_a_sighup_while_it_starts_kills_nobody(monkeypatch) -> None:
    before = signal.getsignal(signal.SIGHUP)

    def starting(argv: Sequence[str] | None) -> int:
        signal.raise_signal(signal.SIGHUP)
        return 7

    monkeypatch.setattr(compute, "_run_service", starting)
    assert compute.main(["--help"]) == 7
    assert signal.getsignal(signal.SIGHUP) == before


def test_nothing_slow_is_imported_before_it_listens() -> None:
    look = (
        "import sys; before = set(sys.modules); import ironic_virt.cmd.compute\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "['ironic_virt']\n"
