# SPDX-License-Identifier: Apache-2.0

"""The revisions.  One that has been released is never changed: a new one follows it."""
