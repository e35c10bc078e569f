# SPDX-License-Identifier: Apache-2.0

"""A whole real Ironic on fake hardware, for tests, benchmarks and trying things out.

>>> from tools import real_ironic
>>> with real_ironic.RealIronic(real_ironic.Options(delays={"deploy": "2"})) as ironic:
...     nodes = real_ironic.create_nodes(ironic, 3)
...     print(ironic.url, ironic.version, nodes)

The first use installs Ironic into a virtualenv in the user's cache directory.
``python -m tools.real_ironic --nodes 5`` runs one in the foreground.
"""

from tools.real_ironic.configuration import Options
from tools.real_ironic.database import MARIADB, SQLITE
from tools.real_ironic.environment import (
    IRONIC_VERSION,
    IronicEnvironment,
    Progress,
    ensure_environment,
)
from tools.real_ironic.errors import (
    DatabaseError,
    EnvironmentBuildError,
    RealIronicError,
    StartError,
)
from tools.real_ironic.nodes import NodeTemplate, clone_nodes, create_nodes
from tools.real_ironic.scripts.fake_hardware import HELD
from tools.real_ironic.service import RealIronic

__all__ = [
    "HELD",
    "IRONIC_VERSION",
    "MARIADB",
    "SQLITE",
    "DatabaseError",
    "EnvironmentBuildError",
    "IronicEnvironment",
    "NodeTemplate",
    "Options",
    "Progress",
    "RealIronic",
    "RealIronicError",
    "StartError",
    "clone_nodes",
    "create_nodes",
    "ensure_environment",
]
