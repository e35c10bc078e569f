# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt demo``: a compute service in memory, and one journey through the driver.

It loads the driver as any compute service does, by an ini file and the entry
point, and shows an instance's life from spawn to destroy on an Ironic of its
own.  It keeps nothing and is no place to build a service on.
"""
