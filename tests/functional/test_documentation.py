# SPDX-License-Identifier: Apache-2.0

"""The documentation's examples run as they are printed."""

import pathlib
import re
import runpy
import sys
from typing import Any

import pytest

from ironic_virt.scheduler.filters import Filter
from ironic_virt.testing.fake_ironic import Durations, FakeIronicServer
from tests.functional import typed

EXAMPLES = typed.ROOT / "doc" / "source" / "examples"
README = typed.ROOT / "README.rst"


@pytest.mark.parametrize("name", ["fake_in_process.py", "fake_over_http.py", "fault_proxy.py"])
def test_an_example_of_the_test_support(name: str) -> None:
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def options(url: str) -> str:
    """The configuration file of a service whose Ironic is there."""
    lines = ("[DEFAULT]", "compute_driver = ironic", "[ironic]", "auth_type = none")
    return "\n".join((*lines, f"endpoint_override = {url}", "api_retry_interval = 1", ""))


def test_the_example_of_a_compute_service(tmp_path, capsys, monkeypatch) -> None:
    durations = Durations(deploy=0.2, clean=0.2)
    with FakeIronicServer(durations=durations) as server:
        node = server.fake.add_node(resource_class="gold")
        config = tmp_path / "ironic-virt.conf"
        config.write_text(options(server.url))
        monkeypatch.setattr(sys, "argv", ["load_driver.py", str(config)])
        runpy.run_path(str(EXAMPLES / "load_driver.py"), run_name="__main__")
        assert capsys.readouterr().out == f"deployed on node {node}\ndestroyed\n"
        assert server.fake.node(node)["instance_uuid"] is None


def test_the_example_of_picking_nodes(tmp_path, capsys, monkeypatch) -> None:
    config = tmp_path / "ironic-virt.conf"
    config.write_text(options("http://ironic.invalid"))
    monkeypatch.setattr(sys, "argv", ["pick_nodes.py", str(config)])
    runpy.run_path(str(EXAMPLES / "pick_nodes.py"), run_name="__main__")
    *placed, refused = capsys.readouterr().out.splitlines()
    # The snug ones first.
    assert {line.split()[1] for line in placed[:2]} == {"node-0", "node-2"}
    assert {line.split()[1] for line in placed[2:]} == {"node-1", "node-3"}
    assert refused == (
        "No valid host for server instance-4 (flavor gold): none of 4 nodes is free and has a "
        "compute service that is up"
    )


def test_the_example_of_a_filter() -> None:
    example = runpy.run_path(str(EXAMPLES / "rack_filter.py"))
    # That it is loaded by its entry point is tested with the scheduler.
    assert isinstance(example["rack"](None), Filter)


@pytest.mark.parametrize("page", [README, EXAMPLES.parent / "testing" / "index.rst"])
def test_the_test_that_is_printed_passes(page, fake_ironic, fake_ironic_url) -> None:
    (example,) = typed.blocks(page.read_text(), "python")
    printed: dict[str, Any] = {}
    exec(compile(example, str(page), "exec"), printed)
    printed["test_my_client"](fake_ironic, fake_ironic_url)
    assert len(fake_ironic.requests) == 1


def test_readme_names_the_releases_that_are_supported() -> None:
    supported = (typed.ROOT / "doc" / "source" / "project" / "support.rst").read_text()
    rows = re.findall(r"   \* - (\S+)\n     - (\d+)\n     - (.+)\n", supported)
    table = typed.section(README, "Supported")
    assert re.findall(r"^(20\S+) +(\d+) +(.+)$", table, re.MULTILINE) == rows


def test_every_example_is_run_here_and_printed_there() -> None:
    printed = "".join(page.read_text() for page in EXAMPLES.parent.rglob("*.rst"))
    # The hook needs Nova to be of use.
    tests = (pathlib.Path(__file__), typed.ROOT / "tests" / "nova" / "test_hooks.py")
    here = "".join(file.read_text() for file in tests)
    for example in EXAMPLES.glob("*.py"):
        assert f"examples/{example.name}" in printed
        assert f'"{example.name}"' in here
