# SPDX-License-Identifier: Apache-2.0

"""What is asked of both Ironics; importing this registers all checks."""

import importlib
import pkgutil

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")
