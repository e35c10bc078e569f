# SPDX-License-Identifier: Apache-2.0

"""Leases on real Redis and etcd, whose programs the lane that runs this needs."""
