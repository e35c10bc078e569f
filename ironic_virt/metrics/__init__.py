# SPDX-License-Identifier: Apache-2.0

"""Metrics for Prometheus, the same in nova-compute and in the reference service."""
