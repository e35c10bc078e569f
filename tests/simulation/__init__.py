# SPDX-License-Identifier: Apache-2.0

"""Whole deployments in one process: on a virtual clock, by a seed, with faults everywhere."""
