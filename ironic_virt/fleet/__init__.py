# SPDX-License-Identifier: Apache-2.0

"""Tools for operators of Nova: what a fleet of bare metal nodes is, and how it is changed.

They run where ``nova-manage`` runs, and read Nova's databases, Placement and Ironic.  Nothing
is imported here: the modules that read Nova need it, the decisions do not.
"""
