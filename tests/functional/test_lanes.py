# SPDX-License-Identifier: Apache-2.0

"""The lanes of ``.ci/run``: one that hangs shows where, fails, and keeps no other from running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.functional.compute.processes import wait_for

ROOT = Path(__file__).parents[2]
# As a server that a test has started: in a session of its own, with our output.  Once it
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


def run(script: str, directory: Path, **limits: str) -> subprocess.CompletedProcess[str]:
    """Run lanes as ``.ci/run`` does."""
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail; source .ci/lanes.sh; {script}"],
        cwd=ROOT,
        env={**os.environ, "LOGS": str(directory), "PYTHON": sys.executable, **limits},
        capture_output=True,
        text=True,
        check=False,
    )


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for somebody to ask how it ended."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_lane_that_hangs_fails_and_the_next_one_runs(tmp_path: Path) -> None:
    program, pid = tmp_path / "hangs.py", tmp_path / "pid"
    program.write_text(HANGS)
    done = run(
        f"lane hangs $PYTHON {program} {pid}; lane next echo here I am; summary",
        tmp_path,
        LANE_LIMIT="600",
        LANE_GRACE="1",
    )
    assert done.returncode == 1, done.stderr
    hangs, following, _ = done.stdout.split("===== summary =====")[1].strip().splitlines()
    assert hangs.split()[:2] == ["hangs", "FAILED"]
    assert "not done after 600 s" in hangs
    assert following.split()[:2] == ["next", "passed"]
    assert "in waits_for_ever" in (tmp_path / "hangs.log").read_text()
    assert "here I am" in (tmp_path / "next.log").read_text()
    assert "left behind, killed: sleep 600" in done.stdout
    left_behind = int(pid.read_text())
    wait_for("the end of what was left behind", lambda: has_ended(left_behind))


def test_a_lane_gets_no_more_than_its_time(tmp_path: Path) -> None:
    done = run("lane endless sleep 600; summary", tmp_path, LANE_LIMIT="1")
    assert done.returncode == 1, done.stderr
    assert "not done after 1 s" in done.stdout


def test_a_lane_that_fails_keeps_its_last_word(tmp_path: Path) -> None:
    words = "= 1 failed, 2 passed in 3.00s ="
    done = run(f"lane tests bash -c 'echo {words}; exit 2'; summary", tmp_path)
    assert done.returncode == 1, done.stderr
    line = done.stdout.split("===== summary =====")[1].strip().splitlines()[0]
    assert line.split()[:2] == ["tests", "FAILED"]
    assert line.endswith(words)


def test_no_lane_begins_when_all_of_the_time_is_used_up(tmp_path: Path) -> None:
    done = run("lane late touch $LOGS/begun; summary", tmp_path, TOTAL_LIMIT="0")
    assert done.returncode == 1, done.stderr
    assert "not begun: the lanes before it have taken 0 s" in done.stdout
    assert not (tmp_path / "begun").exists()


def test_lanes_that_pass_are_a_success(tmp_path: Path) -> None:
    done = run("lane one true; lane two true; summary", tmp_path)
    assert done.returncode == 0, done.stderr


def test_lanes_beside_others_run_at_the_same_time_and_are_in_the_summary(tmp_path: Path) -> None:
    # Each of the two waits for what the other one writes.
    beside = "others() { lane there bash -c 'echo >$LOGS/t; until [ -e $LOGS/h ]; do :; done'; }"
    done = run(
        f"{beside}; beside others;"
        " lane here bash -c 'echo >$LOGS/h; until [ -e $LOGS/t ]; do :; done';"
        " rejoin; summary",
        tmp_path,
        LANE_LIMIT="60",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("===== summary =====")[1].strip().splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["here", "passed"], ["there", "passed"]]
    assert "===== there =====" in done.stdout


def test_a_failure_beside_is_a_failure(tmp_path: Path) -> None:
    done = run(
        "others() { lane bad false; lane good true; }; beside others; lane here true;"
        " rejoin; summary",
        tmp_path,
    )
    assert done.returncode == 1, done.stderr
    lines = done.stdout.split("===== summary =====")[1].strip().splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["here", "passed"],
        ["bad", "FAILED"],
        ["good", "passed"],
    ]


def test_rows_beside_run_at_the_same_time_and_each_is_in_the_summary(tmp_path: Path) -> None:
    # Each waits for what the next one writes, in a ring.
    rows = "".join(
        f"row{mine}() {{ lane l{mine} bash -c"
        f" 'echo >$LOGS/t{mine}; until [ -e $LOGS/t{following} ]; do :; done'; }};"
        f" {how}row{mine};"
        for mine, following, how in ((1, 2, "beside "), (2, 3, "beside "), (3, 1, ""))
    )
    done = run(f"{rows} rejoin; summary", tmp_path, LANE_LIMIT="60")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("===== summary =====")[1].strip().splitlines()
    assert sorted(line.split()[0] for line in lines[:3]) == ["l1", "l2", "l3"]
    assert {line.split()[1] for line in lines[:3]} == {"passed"}


def test_a_failure_in_one_of_the_rows_beside_is_a_failure(tmp_path: Path) -> None:
    for bad in ("one", "two"):
        verdicts = {"one": "true", "two": "true"} | {bad: "false"}
        rows = "".join(f"{r}() {{ lane {r} {v}; }}; beside {r};" for r, v in verdicts.items())
        done = run(f"{rows} lane here true; rejoin; summary", tmp_path)
        assert done.returncode == 1, done.stderr
        lines = done.stdout.split("===== summary =====")[1].strip().splitlines()
        failed = [line.split()[0] for line in lines[:3] if line.split()[1] == "FAILED"]
        assert failed == [bad]


def test_lanes_beside_that_break_off_are_a_failure(tmp_path: Path) -> None:
    done = run("others() { exit 0; }; beside others; rejoin; summary", tmp_path)
    assert done.returncode == 1, done.stderr
    assert "the lanes beside broke off" in done.stdout
