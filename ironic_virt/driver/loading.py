# SPDX-License-Identifier: Apache-2.0

"""Finds the driver by its entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironic_virt import driver, exceptions

if TYPE_CHECKING:
    from oslo_config import cfg

    from ironic_virt.virt import VirtAPI

_NAMESPACE = "ironic_virt.compute_drivers"


def load_compute_driver(conf: cfg.ConfigOpts, virtapi: VirtAPI) -> driver.IronicDriver:
    """Load the driver that ``[DEFAULT] compute_driver`` names.

    :param conf: options, registered and checked (:func:`ironic_virt.conf.load`).
    :param virtapi: the service's side of the contract.
    :raises ComputeDriverNotFound: no entry point of that name in
        ``ironic_virt.compute_drivers``; lists those found.
    :raises ComputeDriverFailed: it can't be imported or constructed, or is of another class.
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
        raise exceptions.ComputeDriverFailed(name, repr(exc)) from exc
    for failure in failures:
        if isinstance(failure, exceptions.IronicVirtError):
            raise failure
        raise exceptions.ComputeDriverFailed(name, repr(failure)) from failure
    drivers = [extension.obj for extension in found]
    if not drivers:
        raise exceptions.ComputeDriverNotFound(name, found.entry_points_names())
    if len(drivers) > 1:
        raise exceptions.ComputeDriverFailed(
            name, "several installed packages bring a driver of this name"
        )
    if not isinstance(drivers[0], driver.IronicDriver):
        raise exceptions.ComputeDriverFailed(
            name, f"{type(drivers[0]).__name__} is not an ironic_virt.driver.IronicDriver"
        )
    return drivers[0]
