# SPDX-License-Identifier: Apache-2.0

"""The tables' history: one revision after the other, run by alembic."""
