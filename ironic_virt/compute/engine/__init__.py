# SPDX-License-Identifier: Apache-2.0

"""The process of a compute service: its loops, its tasks in threads, and its end."""
