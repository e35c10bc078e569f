# SPDX-License-Identifier: Apache-2.0

"""``make demo IRONIC=real``: the whole way, and early ends."""

from collections.abc import Iterator

import pytest

from tests.functional.demo_process import Demo

# An Ironic is started, and then a dozen processes one after the other.
pytestmark = pytest.mark.timeout(900)


class RealDemo(Demo):
    """The demo on a real Ironic."""

    COMMAND = ("tools.demo",)


@pytest.fixture
def demo(ironic_environment, tmp_path) -> Iterator[Demo]:
    """A demo whose Ironic is installed already."""
    demo = RealDemo(tmp_path)
    yield demo
    demo.kill()


def test_it_goes_all_the_way_on_the_real_ironic(demo: Demo) -> None:
    result = demo.run("--deploy-time", "0.1")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "Started Ironic 39.0.0, API 1.115, 5 nodes: " in result.stdout
    assert result.stdout.splitlines()[-1].startswith("Every node is available again")
    demo.assert_nothing_left()
