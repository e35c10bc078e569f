# SPDX-License-Identifier: Apache-2.0

"""The reference compute service, its records, and its commands."""
