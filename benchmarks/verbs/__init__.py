# SPDX-License-Identifier: Apache-2.0

"""Each verb of Nova's API, asked of a server in each state, with both drivers."""
