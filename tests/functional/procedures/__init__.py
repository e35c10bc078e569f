# SPDX-License-Identifier: Apache-2.0

"""The procedures of the documentation, followed by a test."""
