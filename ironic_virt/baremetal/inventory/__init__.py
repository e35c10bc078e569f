# SPDX-License-Identifier: Apache-2.0

"""The nodes that a service serves, kept in step with Ironic."""
