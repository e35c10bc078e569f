# SPDX-License-Identifier: Apache-2.0

"""Deploy instances on bare metal through OpenStack Ironic.

A compute service loads the driver by a config option and an entry point; see
:func:`ironic_virt.driver.loading.load_compute_driver`.  Nothing is imported here, so
that ``import ironic_virt`` costs nothing and asks for nothing.
"""
