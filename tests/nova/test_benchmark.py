# SPDX-License-Identifier: Apache-2.0

"""That ``python -m benchmarks nova`` can be run, with a few nodes."""

from __future__ import annotations

import json
import subprocess
import sys


def test_a_quick_run_measures_both_drivers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nova", "--quick"],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    ours, peer = found["ours"], found["peer"]
    # Nova's own part doesn't depend on the driver.
    for name in ("placement_requests", "start_placement_requests"):
        assert ours[name] == peer[name] > 0
    for part in ("driver_cpu", "database_queries", "ironic_requests"):
        assert ours[part] > 0
        assert peer[part] > 0
