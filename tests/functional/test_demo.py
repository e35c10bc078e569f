# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt demo`` as a user runs it: its own process, and what it leaves."""

import pathlib
import signal
from collections.abc import Iterator

import pytest

from tests import depth
from tests.functional.demo_process import SECONDS, Demo, read_until

# Ten commands, each its own process, on a host that may be busy.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

QUICK = ("--deploy-time", "0.3")
ENDLESS = ("--deploy-time", "600")
INTERRUPTED = "Interrupted: cleaning up. Interrupt again to leave at once."


@pytest.fixture
def demo(tmp_path: pathlib.Path) -> Iterator[Demo]:
    demo = Demo(tmp_path)
    yield demo
    demo.kill()


def last_table(text: str) -> list[list[str]]:
    """The cells of the last table that "node list" has printed."""
    body = text.rpartition("$ ironic-virt node list")[2]
    rows = [line.strip("| ").split("|") for line in body.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


def test_it_goes_all_the_way_and_shows_every_command(demo: Demo) -> None:
    result = demo.run(*QUICK)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("ironic-virt ")
    typed = [line for line in result.stdout.splitlines() if line.startswith("$ ")]
    assert [" ".join(line.split()[1:4:1]) for line in typed[2:]] == [
        *("ironic-virt flavor create", "ironic-virt node list", "ironic-virt server create"),
        *("ironic-virt node list", "ironic-virt server reboot", "ironic-virt server stop"),
        *("ironic-virt server start", "ironic-virt server delete"),
        "ironic-virt node list",
    ]
    assert typed[0].startswith("$ ironic-virt-compute --config-file ")
    assert result.stdout.count(": active on ") >= 5
    tables = [line for line in result.stdout.splitlines() if line.startswith(("+", "|"))]
    assert max(map(len, tables)) <= 80
    assert [row[1:] for row in last_table(result.stdout)] == [["available", "demo"]] * 5
    assert "Every node is available again" in result.stdout.splitlines()[-1]
    assert "\x1b" not in result.stdout
    demo.assert_nothing_left()


def test_whoever_picks_the_nodes_it_goes_all_the_way(demo: Demo) -> None:
    result = demo.run(*QUICK, "--nodes", "2", "--servers", "1", "--node-selection", "ironic")
    assert (result.returncode, result.stderr) == (0, "")
    assert "$ ironic-virt server delete demo --wait" in result.stdout
    [pool] = last_table(result.stdout)
    assert "baremetal" in pool
    assert "2" in pool
    tables = [line for line in result.stdout.splitlines() if line.startswith(("+", "|"))]
    assert max(map(len, tables)) <= 80
    demo.assert_nothing_left()


SIGNALS = [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]


@pytest.mark.parametrize(("signum", "code"), depth.choose(SIGNALS[:1], SIGNALS))
def test_a_signal_in_mid_deployment_ends_it_and_leaves_nothing(demo, signum, code) -> None:
    process = demo.start(*ENDLESS)
    read_until(process, lambda line: "deploying" in line)
    process.send_signal(signum)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (code, "ironic-virt: interrupted\n" * (code == 130))
    assert INTERRUPTED in out
    demo.assert_nothing_left()


def test_a_service_that_ends_ends_the_demo_with_its_last_words(demo: Demo) -> None:
    process = demo.start(*ENDLESS)
    read_until(process, lambda line: "deploying" in line)
    demo.kill_service()
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert err.startswith("ironic-virt-compute has ended: ")
    assert err.count("\n") == 1
    demo.assert_nothing_left()
