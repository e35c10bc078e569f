# SPDX-License-Identifier: Apache-2.0

"""Loading the driver by its entry point."""

import pathlib
import sys

import pytest
from oslo_config import cfg

from ironic_virt import conf, exceptions
from ironic_virt.driver import IronicDriver
from ironic_virt.driver.loading import load_compute_driver
from tests import entry_points
from tests.compute_service import VirtAPI

DRIVERS = """
from ironic_virt import driver, exceptions

class Good(driver.IronicDriver):
    def __init__(self, conf, virtapi):
        self.conf = conf
        self.virtapi = virtapi

class Unrelated:
    def __init__(self, conf, virtapi):
        pass

def choosy(conf, virtapi):
    raise exceptions.InvalidConfiguration("[ironic] shard_key", "is not set")

def clumsy(conf, virtapi):
    raise ZeroDivisionError("a slip")

def careful(conf, virtapi):
    assert conf is None, "conf must be None"
"""

NAMESPACE = "ironic_virt.compute_drivers"
ENTRY_POINTS = {
    **{name: f"some_drivers:{name}" for name in ("choosy", "clumsy", "careful")},
    **{name.lower(): f"some_drivers:{name}" for name in ("Good", "Unrelated")},
    "unimportable": "no_such_module_anywhere:Driver",
    "misnamed": "some_drivers:NoSuchClass",
}


def load(name: str) -> IronicDriver:
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    options([])
    options.set_override("compute_driver", name)
    return load_compute_driver(options, VirtAPI("compute-1"))


def test_a_driver_is_made_with_the_options_and_the_service() -> None:
    driver = load("good")
    assert type(driver).__name__ == "Good"
    assert driver.conf.compute_driver == "good"
    assert driver.virtapi.host == "compute-1"


def test_an_unknown_name_lists_the_installed_ones() -> None:
    with pytest.raises(exceptions.InvalidConfiguration) as caught:
        load("golden")
    assert caught.value.option == "[DEFAULT] compute_driver"
    said, _, installed = caught.value.reason.partition("; there are: ")
    assert said == "golden is not installed"
    assert {"good", "choosy", "unimportable"} <= set(installed.split(", "))
    assert "some_drivers" not in sys.modules


@pytest.mark.parametrize(
    ("name", "reason", "cause"),
    [
        ("unimportable", "no_such_module_anywhere", ImportError),
        ("misnamed", "NoSuchClass", AttributeError),
        ("clumsy", "a slip", ZeroDivisionError),
        ("careful", "conf must be None", AssertionError),
        ("unrelated", r"is no ironic_virt\.driver\.driver\.IronicDriver", type(None)),
    ],
)
def test_a_driver_that_can_not_be_had_is_named_with_the_reason(name, reason, cause) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match=reason) as caught:
        load(name)
    assert caught.value.option == "[DEFAULT] compute_driver"
    assert isinstance(caught.value.__cause__, cause)


def test_an_error_of_ours_comes_through_as_it_is() -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match="shard_key"):
        load("choosy")


@pytest.fixture(autouse=True)
def installed_drivers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a distribution with drivers of all kinds, as pip would."""
    site = tmp_path / "some_drivers"
    entry_points.install(site, monkeypatch, NAMESPACE, ENTRY_POINTS)
    (site / "some_drivers.py").write_text(DRIVERS)
    monkeypatch.delitem(sys.modules, "some_drivers", raising=False)


def test_one_name_for_two_drivers_is_an_error(tmp_path, monkeypatch) -> None:
    points = {"good": "some_drivers:Unrelated"}
    entry_points.install(tmp_path / "more_drivers", monkeypatch, NAMESPACE, points)
    with pytest.raises(exceptions.InvalidConfiguration, match="good"):
        load("good")
