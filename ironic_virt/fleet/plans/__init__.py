# SPDX-License-Identifier: Apache-2.0

"""Plans of shards: which node is to be in which shard, and with which service."""
