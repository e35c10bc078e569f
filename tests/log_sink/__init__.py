# SPDX-License-Identifier: Apache-2.0

"""Put on ``PYTHONPATH``, has every Python process write all that it logs into a directory."""
