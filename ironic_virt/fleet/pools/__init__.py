# SPDX-License-Identifier: Apache-2.0

"""Into pools and out of them, with servers: what is to be done, and doing it."""
