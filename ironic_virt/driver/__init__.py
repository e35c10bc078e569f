# SPDX-License-Identifier: Apache-2.0

"""The driver: a thin façade, and one module for each capability."""

from ironic_virt.driver.driver import IronicDriver
from ironic_virt.driver.network_data import Link
from ironic_virt.driver.resources import HYPERVISOR_TYPE

__all__ = ["HYPERVISOR_TYPE", "IronicDriver", "Link"]
