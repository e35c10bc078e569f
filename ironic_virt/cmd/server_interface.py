# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server add interface``, ``remove interface`` and ``dump create``."""

from __future__ import annotations

import argparse
from typing import Any

from ironic_virt.cmd import arguments, server
from ironic_virt.cmd.commands import argument


class _Interface(server.AskOne):
    takes = (
        argument(
            "vif",
            metavar="<vif-id>",
            type=arguments.name,
            help="The id of a VIF, as of a port in Neutron.",
        ),
    )

    def arguments(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """The verb's arguments."""
        return {"vif": parsed_args.vif}


class Add(_Interface):
    """Attach an interface to a server that is there.

    Its node needs a port, or a port group, that is free. If the VIF can't be attached, the
    server stays as it is.
    """

    verb = "attach_interface"

    epilog = """\
examples:
  ironic-virt server add interface --wait web 5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11
"""


class Remove(_Interface):
    """Detach an interface from a server.

    If the VIF can't be detached, the server stays as it is.
    """

    verb = "detach_interface"

    epilog = """\
examples:
  ironic-virt server remove interface --wait web 5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11
"""


class CreateDump(server.AskOne):
    """Crash a server's system on purpose, by an NMI, so that it writes a crash dump.

    Where the dump goes, and whether there is one, is up to the system: kdump in Linux.
    If the reply to the NMI is lost, none is sent again, the request has failed, and the
    server's events say why.
    """

    verb = "trigger_crash_dump"

    epilog = """\
examples:
  ironic-virt server dump create --wait web
"""
