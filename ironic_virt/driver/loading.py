# SPDX-License-Identifier: Apache-2.0

"""Finds the driver by its entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironic_virt import driver, exceptions

if TYPE_CHECKING:
    from oslo_config import cfg

    from ironic_virt.virt import VirtAPI

_OPTION = "[DEFAULT] compute_driver"
_NAMESPACE = "ironic_virt.compute_drivers"


def load_compute_driver(conf: cfg.ConfigOpts, virtapi: VirtAPI) -> driver.IronicDriver:
    """Load the driver that ``[DEFAULT] compute_driver`` names.

    :param conf: options, registered and checked (:func:`ironic_virt.conf.load`).
    :param virtapi: the service's side of the contract.
    :raises InvalidConfiguration: no entry point of that name in
        ``ironic_virt.compute_drivers``, or it can't be loaded; says which ones there are, or
        what is wrong.
    """
    from stevedore import named

    name = conf.compute_driver
    failures: list[BaseException] = []
    try:
        found: named.NamedExtensionManager[Any] = named.NamedExtensionManager(
            _NAMESPACE,
            [name],
            invoke_on_load=True,
            invoke_args=(conf, virtapi),
            on_load_failure_callback=lambda _manager, _entrypoint, exc: failures.append(exc),
            on_missing_entrypoints_callback=lambda _names: None,
        )
    except AssertionError as exc:
        # The one error that stevedore does not hand to the callback.
        raise _failed(name, repr(exc)) from exc
    for failure in failures:
        if isinstance(failure, exceptions.IronicVirtError):
            raise failure
        raise _failed(name, repr(failure)) from failure
    drivers = [extension.obj for extension in found]
    if not drivers:
        installed = ", ".join(sorted(found.entry_points_names())) or "none"
        raise exceptions.InvalidConfiguration(
            _OPTION, f"no driver {name!r} is installed; these are: {installed}"
        )
    if len(drivers) > 1:
        raise _failed(name, "several installed packages bring a driver of this name")
    if not isinstance(drivers[0], driver.IronicDriver):
        raise _failed(
            name, f"{type(drivers[0]).__name__} is not an ironic_virt.driver.IronicDriver"
        )
    return drivers[0]


def _failed(name: str, reason: str) -> exceptions.InvalidConfiguration:
    return exceptions.InvalidConfiguration(_OPTION, f"{name!r} could not be loaded: {reason}")
