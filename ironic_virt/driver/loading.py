# SPDX-License-Identifier: Apache-2.0

"""Finds the driver by its entry point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_virt import driver
from ironic_virt.conf import plugins

if TYPE_CHECKING:
    from oslo_config import cfg

    from ironic_virt.virt import VirtAPI


def load_compute_driver(conf: cfg.ConfigOpts, virtapi: VirtAPI) -> driver.IronicDriver:
    """Load the driver that ``[DEFAULT] compute_driver`` names.

    :param conf: options, registered and checked (:func:`ironic_virt.conf.load`).
    :param virtapi: the service's side of the contract.
    :raises InvalidConfiguration: no entry point of that name in
        ``ironic_virt.compute_drivers``, or it can't be loaded; says which ones there are, or
        what is wrong.
    """
    namespace, option = "ironic_virt.compute_drivers", "[DEFAULT] compute_driver"
    name: str = conf.compute_driver
    return plugins.load(namespace, [name], driver.IronicDriver, conf, option, virtapi)[name]
