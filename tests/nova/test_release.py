# SPDX-License-Identifier: Apache-2.0

"""What differs between releases of Nova, and one that is too old."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from unittest import mock

import nova.conf
import pytest
from nova import exception
from nova.conf import ironic as novas
from nova.virt import driver as nova_driver

from ironic_virt.nova import release
from ironic_virt.nova.driver import IronicDriver

OURS = tuple(f"ironic_virt.nova.{name}" for name in ("actions", "driver", "networks", "volumes"))


def test_a_nova_without_shards_is_refused_at_start_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older = [option for option in novas.ironic_options if option.dest != "shard"]
    monkeypatch.setattr(novas, "ironic_options", older)
    with pytest.raises(exception.InvalidConfiguration, match=r"oldest .* is 2024.1 \(Nova 29\)"):
        IronicDriver(mock.Mock(spec=[]))


def test_what_this_release_lacks_is_found_by_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    lacked = {feature.name for feature in release.lacking()}
    options = {option.dest for option in novas.ironic_options}
    assert ("[ironic] vnc_console_state_timeout" in lacked) is (
        "vnc_console_state_timeout" not in options
    )
    monkeypatch.delattr(nova_driver.ComputeDriver, "process_instances_at_startup", raising=False)
    assert "ComputeDriver.process_instances_at_startup" in {
        feature.name for feature in release.lacking()
    }
    assert ("[compute] update_resources_max_workers" in lacked) is (
        "update_resources_max_workers" not in nova.conf.CONF.compute
    )


def test_the_page_of_releases_says_what_the_driver_does_without_each() -> None:
    page = (Path(__file__).parents[2] / "doc/source/nova/releases.rst").read_text()
    rows = re.findall(r"^   \* - (.*)\n     - (.*)$", page, re.MULTILINE)
    said = {name.replace("`", ""): without for name, without in rows}
    for feature in release.FEATURES:
        assert said[feature.name] == feature.without


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name, method in vars(nova_driver.ComputeDriver).items()
        if inspect.isfunction(method)
        and getattr(IronicDriver, name).__module__ in OURS
        and not name.startswith("_")
    ),
)
def test_each_method_takes_what_this_release_of_nova_passes(name: str) -> None:
    novas_own = inspect.signature(getattr(nova_driver.ComputeDriver, name)).parameters
    ours = inspect.signature(getattr(IronicDriver, name)).parameters
    assert list(novas_own) == list(ours)[: len(novas_own)]
    for further in list(ours.values())[len(novas_own) :]:
        assert further.default is not inspect.Parameter.empty
    for passed in novas_own.values():
        if passed.default is not inspect.Parameter.empty:
            assert ours[passed.name].default is not inspect.Parameter.empty
