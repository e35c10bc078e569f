# SPDX-License-Identifier: Apache-2.0

"""The lanes of ``.ci/run``: one that hangs shows where, fails, and keeps no other from running."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.functional.compute.processes import wait_for

ROOT = Path(__file__).parents[2]
# As a server that a test has started: in its own session, with our output.  Once it
# hangs, its time is up: what timeout(1) has set a timer for is sent to it.
HANGS = """
import faulthandler, os, pathlib, signal, subprocess, sys, threading
faulthandler.enable()
server = subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(server.pid))
def waits_for_ever():
    os.kill(os.getppid(), signal.SIGALRM)
    threading.Event().wait()
threading.Thread(target=waits_for_ever).start()
"""


def run(
    script: str, directory: Path, status: int = 1, **limits: str
) -> tuple[list[list[str]], str]:
    """Run lanes as ``.ci/run`` does; the words of each line of the summary, and all that is said.

    :param status: how that has to end.
    """
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail; source .ci/lanes.sh; {script} summary"],
        cwd=ROOT,
        env={**os.environ, "LOGS": str(directory), "PYTHON": sys.executable, **limits},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    _, _, summary = done.stdout.partition("===== summary =====")
    return [line.split() for line in summary.strip().splitlines()], done.stdout


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for somebody to ask how it ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_lane_that_hangs_fails_and_the_next_one_runs(tmp_path: Path) -> None:
    program, pid = tmp_path / "hangs.py", tmp_path / "pid"
    program.write_text(HANGS)
    script = f"lane hangs $PYTHON {program} {pid}; lane next echo here I am;"
    (hangs, following, *_), said = run(script, tmp_path, LANE_LIMIT="600", LANE_GRACE="1")
    assert hangs[:2] == ["hangs", "FAILED"]
    assert "not done after 600 s" in " ".join(hangs)
    assert following[:2] == ["next", "passed"]
    assert "in waits_for_ever" in (tmp_path / "hangs.log").read_text()
    assert "here I am" in (tmp_path / "next.log").read_text()
    assert "left behind, killed: sleep 600" in said
    left_behind = int(pid.read_text())
    wait_for("the end of what was left behind", lambda: has_ended(left_behind))


def test_a_lane_gets_its_time_and_none_when_all_is_used_up(tmp_path: Path) -> None:
    _, said = run("lane endless sleep 600;", tmp_path, LANE_LIMIT="1")
    assert "not done after 1 s" in said
    _, said = run("lane late touch $LOGS/begun;", tmp_path, TOTAL_LIMIT="0")
    assert "not begun: the lanes before it have taken 0 s" in said
    assert not (tmp_path / "begun").exists()


def test_a_failure_in_the_background_is_a_failure(tmp_path: Path) -> None:
    rows = "row() { lane one false; }; other() { lane two true; };"
    script = f"{rows} in_background row; in_background other; lane here true; rejoin;"
    (*lines, _), _ = run(script, tmp_path)
    verdicts = {name: verdict for name, verdict, *_ in lines}
    assert verdicts == {"here": "passed", "one": "FAILED", "two": "passed"}
    _, said = run("row() { exit 0; }; in_background row; rejoin;", tmp_path)
    assert "the lanes in the background broke off" in said
