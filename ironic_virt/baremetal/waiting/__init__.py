# SPDX-License-Identifier: Apache-2.0

"""Waiting for nodes: any number of callers, one poll."""
