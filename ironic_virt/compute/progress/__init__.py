# SPDX-License-Identifier: Apache-2.0

"""Showing how far instances and nodes are: plain lines, or a live picture on a terminal."""
