# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-manage``: what an operator does to the records themselves.

Everything about how it starts and ends is :mod:`ironic_virt.cmd.shell`'s; commands
are found in the entry point namespace ``ironic_virt.manage_cli``.
"""

import sys
from collections.abc import Sequence

from ironic_virt.cmd import shell


class Manage(shell.Shell):
    """The application of an operator."""

    NAME = "ironic-virt-manage"
    DESCRIPTION = "Look after the records of the reference compute service."
    COMMAND_NAMESPACE = "ironic_virt.manage_cli"


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ironic-virt-manage`` with ``argv``, the process's own by default."""
    return shell.run(Manage, argv)


if __name__ == "__main__":
    sys.exit(main())
