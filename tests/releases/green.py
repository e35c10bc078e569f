# SPDX-License-Identifier: Apache-2.0
# Patching comes before all other imports.

"""A program: pytest with Nova patched for eventlet, as nova-compute up to 2025.2 runs."""

import os

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "0"

from nova import monkey_patch

# Up to 2025.1 importing it is enough.
if hasattr(monkey_patch, "patch"):
    monkey_patch.patch()

import sys

import pytest

from tests import flaky

# What is run once more is run like this, too.
os.environ[flaky.PROGRAM] = "tests.releases.green"
sys.exit(pytest.main())
