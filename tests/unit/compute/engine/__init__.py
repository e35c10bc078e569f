# SPDX-License-Identifier: Apache-2.0

"""The records without a server: connection URLs, retries, states."""
