# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt demo`` as a user runs it: a process of its own, and what it leaves."""

import contextlib
import json
import os
import pathlib
import pty
import select
import signal
from collections.abc import Iterator

import pytest

from tests.functional.demo_process import SECONDS, Demo, read_until

QUICK = ("--deploy-time", "0.3")
ENDLESS = ("--deploy-time", "600")


@pytest.fixture
def demo(tmp_path: pathlib.Path) -> Iterator[Demo]:
    demo = Demo(tmp_path)
    yield demo
    demo.kill()


def last_table(text: str) -> list[list[str]]:
    """The cells of the table under "Nodes after"."""
    body = text.split("Nodes after:\n\n")[1].split("\n\n")[0]
    return [line.split("  ") for line in body.splitlines()[2:]]


def test_it_goes_all_the_way_and_says_so(demo: Demo) -> None:
    result = demo.run(*QUICK)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("ironic-virt ")
    table = [[cell.strip() for cell in row if cell] for row in last_table(result.stdout)]
    assert [row[0] for row in table] == [f"node-{number}" for number in range(1, 6)]
    assert {(row[1], row[3]) for row in table} == {("available", "-")}
    assert "Every node is available again" in result.stdout.splitlines()[-1]
    assert "deploying (active)" not in result.stdout
    assert "\x1b" not in result.stdout
    demo.assert_nothing_left()


def test_json_is_all_there_is_on_standard_output(demo: Demo) -> None:
    result = demo.run(*QUICK, "--json", "--nodes", "4", "--instances", "4")
    assert result.returncode == 0
    report = json.loads(result.stdout)
    assert report["result"] == "ok"
    assert report["driver"] == "ironic_virt.driver.driver.IronicDriver"
    assert report["ironic"]["kind"] == "fake"
    assert report["ironic"]["api_version"].startswith("1.")
    assert [node["provision_state"] for node in report["nodes"]["deployed"]] == ["active"] * 4
    assert [node["provision_state"] for node in report["nodes"]["after"]] == ["available"] * 4
    assert {node["instance_uuid"] for node in report["nodes"]["after"]} == {None}
    assert len({one["node"] for one in report["instances"]}) == 4
    assert all(len(one["vifs"]) == 1 for one in report["instances"])
    assert "Nodes after:" in result.stderr
    demo.assert_nothing_left()


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_in_mid_deployment_ends_it_and_leaves_nothing(
    demo: Demo, signum: signal.Signals, code: int
) -> None:
    process = demo.start(*ENDLESS)
    read_until(process, lambda line: "deploying" in line)
    process.send_signal(signum)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == code
    assert "Interrupted: cleaning up. Interrupt again to leave at once." in out
    assert err == ""
    demo.assert_nothing_left()


def test_an_interrupted_run_still_has_its_json(demo: Demo) -> None:
    process = demo.start(*ENDLESS, "--json")
    assert process.stderr is not None
    for line in process.stderr:
        if "deploying" in line:
            break
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert json.loads(out)["result"] == "interrupted"


def test_the_second_signal_ends_it_at_once(demo: Demo) -> None:
    process = demo.start(*ENDLESS)
    read_until(process, lambda line: "deploying" in line)
    # Both are pending before it runs again, so it has no time to clean up in order.
    process.send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=SECONDS) in (130, 143)
    demo.assert_nothing_left()


def on_terminal(demo: Demo, *argv: str, **environ: str) -> tuple[int, bytes]:
    """Run it with a terminal for its standard output; exit code and what was written there."""
    ours, theirs = pty.openpty()
    process = demo.start(*argv, stdout=theirs, **environ)
    os.close(theirs)
    drawn = b""
    with contextlib.suppress(OSError):  # which is how the end of a terminal is told
        while select.select([ours], [], [], SECONDS)[0]:
            if not (chunk := os.read(ours, 65536)):
                break
            drawn += chunk
    os.close(ours)
    return process.wait(timeout=SECONDS), drawn


def test_on_a_terminal_it_draws_and_gives_the_cursor_back(demo: Demo) -> None:
    code, drawn = on_terminal(demo, *QUICK)
    assert code == 0
    assert b"\x1b[?25l" in drawn
    assert drawn.rindex(b"\x1b[?25h") > drawn.rindex(b"\x1b[?25l")
    assert "✔".encode() in drawn
    demo.assert_nothing_left()


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_who_wants_no_colour_gets_plain_lines(demo: Demo, environ: dict[str, str]) -> None:
    code, drawn = on_terminal(demo, "--deploy-time", "0", **environ)
    assert code == 0
    assert b"demo-1 on node-1: active" in drawn
    assert b"\x1b" not in drawn


def test_a_wrong_command_line_starts_nothing(demo: Demo) -> None:
    result = demo.run("--nodes", "2", "--instances", "3")
    assert (result.returncode, result.stdout) == (2, "")
    assert "3 don't fit on 2 nodes" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    demo.assert_nothing_left()
