# SPDX-License-Identifier: Apache-2.0

"""The reference service as processes, on the real Ironic and a database, in a storm."""
