# SPDX-License-Identifier: Apache-2.0

"""The driver as an operator sets it up, against a fake Ironic over HTTP."""
