# SPDX-License-Identifier: Apache-2.0

"""Ironic's REST API as typed data; knows no instances, hosts or schedulers."""
