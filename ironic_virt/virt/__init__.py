# SPDX-License-Identifier: Apache-2.0

"""What stands between a compute service and the driver.

:class:`VirtAPI` is what the driver asks of the service that loaded it, and the types of
:mod:`ironic_virt.virt.values` pass between the two.  What a service asks of the driver is
:class:`ironic_virt.driver.IronicDriver`.

Nothing here knows Ironic.
"""

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
    ServerGroup,
    Vif,
    VifLike,
)
from ironic_virt.virt.virtapi import VirtAPI

__all__ = [
    "BlockDevice",
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
    "ServerGroup",
    "Vif",
    "VifLike",
    "VirtAPI",
]
