# SPDX-License-Identifier: Apache-2.0

"""The driver as a virt driver of OpenStack Nova.

Nothing is imported here, so that looking at the package needs no Nova; its modules
need one.  nova-compute loads :class:`ironic_virt.nova.driver.IronicDriver` by way of
``nova.virt.ironic_virt``, which is what ``compute_driver`` names.
"""
