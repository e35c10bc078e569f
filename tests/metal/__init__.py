# SPDX-License-Identifier: Apache-2.0

"""The story of one machine: deployed for real, and asked from inside what became of it."""
