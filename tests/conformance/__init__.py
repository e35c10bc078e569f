# SPDX-License-Identifier: Apache-2.0

"""One suite of HTTP requests that the fake and the real Ironic answer alike."""
