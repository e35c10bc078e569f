# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt demo``: an Ironic and a compute service of their own, and one journey.

The service is a process as any other, with an ini file and records in a directory that goes
with it; the journey types the commands of a user and looks at the nodes in Ironic by itself.
"""
