# SPDX-License-Identifier: Apache-2.0

"""What differs between releases of Nova, and one that is too old."""

import inspect
from unittest import mock

import pytest
from nova import exception
from nova.conf import ironic as novas
from nova.virt import driver as nova_driver

from ironic_virt.nova.driver import IronicDriver

OURS = tuple(
    f"ironic_virt.nova.{name}" for name in ("actions", "attachments", "driver", "restarts")
)


def test_a_nova_without_shards_is_refused_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    older = [option for option in novas.ironic_options if option.dest != "shard"]
    monkeypatch.setattr(novas, "ironic_options", older)
    with pytest.raises(exception.InvalidConfiguration, match=r"oldest .* is 2024.1 \(Nova 29\)"):
        IronicDriver(mock.Mock(spec=[]))


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
