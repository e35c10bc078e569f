# SPDX-License-Identifier: Apache-2.0

"""Hundreds of waits over HTTP."""
