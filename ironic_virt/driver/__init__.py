# SPDX-License-Identifier: Apache-2.0

"""The driver: a thin façade, and one module for each capability."""

from ironic_virt.driver.driver import IronicDriver

__all__ = ["IronicDriver"]
