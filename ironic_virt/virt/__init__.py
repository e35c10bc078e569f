# SPDX-License-Identifier: Apache-2.0

"""The contract between a compute service and a driver.

:class:`ComputeDriver` is what a compute service calls, :class:`VirtAPI` is
what the driver asks of the service that loaded it, and the types of
:mod:`ironic_virt.virt.values` pass between the two.  :func:`load_compute_driver`
brings them together.

Nothing here knows Ironic.
"""

from ironic_virt.virt.api import VirtAPI
from ironic_virt.virt.driver import ComputeDriver
from ironic_virt.virt.loading import DRIVER_NAMESPACE, load_compute_driver
from ironic_virt.virt.metrics import Metrics, NodeCounts, PoolCount
from ironic_virt.virt.values import (
    BlockDevice,
    ConfigDrive,
    ConsoleAddress,
    DeployRequest,
    Flavor,
    FlavorLike,
    ImageLike,
    ImageMeta,
    Instance,
    InstanceDiagnostics,
    InstanceInfo,
    InstanceLike,
    NetworkInfo,
    NodeInventory,
    NodeResource,
    PowerState,
    Properties,
    Vif,
    VifLike,
)

__all__ = [
    "DRIVER_NAMESPACE",
    "BlockDevice",
    "ComputeDriver",
    "ConfigDrive",
    "ConsoleAddress",
    "DeployRequest",
    "Flavor",
    "FlavorLike",
    "ImageLike",
    "ImageMeta",
    "Instance",
    "InstanceDiagnostics",
    "InstanceInfo",
    "InstanceLike",
    "Metrics",
    "NetworkInfo",
    "NodeCounts",
    "NodeInventory",
    "NodeResource",
    "PoolCount",
    "PowerState",
    "Properties",
    "Vif",
    "VifLike",
    "VirtAPI",
    "load_compute_driver",
]
