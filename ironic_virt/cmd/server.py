# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server list|show``, and a command for each verb but ``create``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ironic_virt.cmd import arguments, output, server_view
from ironic_virt.cmd.commands import LIMIT, SERVER, argument, flag, one_of, row
from ironic_virt.cmd.waiting import AskOne, ask, ask_one, waiting
from ironic_virt.compute.errors import RequestTimeout
from ironic_virt.compute.states import ALL_STATUSES
from ironic_virt.compute.verbs import LONGEST_PASSWORD, generate_password

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Instance

_PASSWORD = "adminPass"
_RESCUE_COLUMNS = {**server_view.SHOW_COLUMNS, _PASSWORD: lambda server: None}


class List(output.Lister):
    """List servers, the newest first."""

    columns = server_view.LIST_COLUMNS
    long_columns = server_view.LONG_COLUMNS
    takes = (
        argument("--name <name>", "Only servers of this name."),
        argument(
            "--status <status>",
            f"Only servers in this status: {', '.join(ALL_STATUSES)}.",
            type=str.upper,
            choices=ALL_STATUSES,
        ),
        argument("--host <host>", "Only servers of this compute service."),
        argument("--node <uuid>", "Only servers on this node."),
        LIMIT,
    )

    def act(self, args: argparse.Namespace) -> Any:
        limit = args.limit if args.status is None else None
        servers = self.db.instances.list(args.host, args.node, name=args.name, limit=limit)
        if args.status is not None:
            servers = [each for each in servers if server_view.status(each) == args.status]
        return servers[: args.limit]


Show = row(
    *(output.ShowOne, "Show a server.", SERVER),
    columns=server_view.SHOW_COLUMNS,
    act=lambda command, args: command.db.instances.get(args.server),
)

# -- verbs of one server or several -------------------------------------------

Delete = ask(
    "delete",
    """Delete servers in any state; Ironic then cleans their nodes.

    The power is cut at once: first stop a server that has to shut down cleanly.  A server that
    can't be deleted gets the status ERROR, and can be deleted again.
    """,
)
Start = ask("start", "Power servers on.")
Stop = ask(
    "stop",
    """Shut servers down and power them off.

    If a system does not shut down, its power is cut after [compute] shutdown_timeout.
    """,
    flag("--hard", "Cut the power at once."),
)
_how = {"action": "store_const", "dest": "verb"}
Reboot = ask(
    *("reboot", "Reboot servers."),
    one_of(
        flag("--hard", "Don't ask the server's system first.", **_how, const="hard_reboot"),
        flag("--soft", "Ask the server's system to reboot (default).", **_how, const="reboot"),
    ),
)
Unrescue = ask(
    "unrescue",
    """Unrescue servers: boot their own systems again.

    A server whose unrescue has failed is in status ERROR, and can be unrescued again.
    """,
)

# -- verbs of one server ------------------------------------------------------


def _interface_command(verb: str, word: str, text: str) -> type[AskOne]:
    return ask_one(
        *(verb, text, argument("vif <vif-id>", "ID of a VIF, such as a port in Neutron.")),
        values=lambda command, args: {"vif": args.vif},
        examples=f"server {word} interface --wait web 5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11",
    )


AddInterface = _interface_command(
    *("attach_interface", "add"),
    """Attach an interface to a server.

    Its node needs a free port or port group. If the VIF can't be attached, the server stays as
    it is.
    """,
)
RemoveInterface = _interface_command(
    *("detach_interface", "remove"),
    """Detach an interface from a server.

    If the VIF can't be detached, the server stays as it is.
    """,
)
CreateDump = ask_one(
    "trigger_crash_dump",
    """Crash a server's system on purpose, by an NMI, so that it writes a crash dump.

    Whether and where it writes a dump is up to the system (kdump in Linux). If the reply to the
    NMI is lost, no other one is sent: the request fails, and the server's fault says why.
    """,
    examples="server dump create --wait web",
)


class Rescue(AskOne):
    """Boot a server into a rescue system to repair its disk.

    Ironic decides which system that is. Nothing is written to the disk. A server in status
    RESCUE takes few requests besides unrescue and delete. If the rescue fails, the server boots
    its own system again; if that fails too, it is in status ERROR, and its fault says what to do.
    """

    verb = "rescue"
    examples = """\
server rescue --wait web -f value -c adminPass
server rescue --wait web --password-file ~/rescue-password
"""
    columns = _RESCUE_COLUMNS
    takes = (
        one_of(
            argument(
                "--password <password>",
                "The password; all users of this computer can read it in the list of processes"
                " (default: one is generated and shown).",
            ),
            argument(
                "--password-file <file>",
                "Read the password from the first line of this file; '-' is standard input.",
            ),
        ),
        *waiting(verb),
    )
    _generated: str | None = None

    def values(self, args: argparse.Namespace) -> dict[str, Any]:
        given = given_password(args)
        self._generated = generate_password() if given is None else None
        return {"password": given or self._generated or ""}

    def shown(self, result: Any, args: argparse.Namespace) -> Any:
        """Also show the password, if it was generated and is valid."""
        password = None if self.code else self._generated
        return output.one({**self.columns, _PASSWORD: lambda server: password}, result)

    def follow(self, requests: Sequence[Instance], args: argparse.Namespace) -> list[Instance]:
        """Wait until it has ended."""
        try:
            return super().follow(requests, args)
        except (RequestTimeout, KeyboardInterrupt):
            if self._generated is not None:
                # It stays valid, and nobody else knows it.
                self.app.stderr.write(f"The password is {self._generated}\n")
            raise


def given_password(args: argparse.Namespace, stdin: TextIO | None = None) -> str | None:
    """The password that the user gives; ``None``: generate one.

    :param stdin: the process's own by default.
    :raises InvalidRequest: it can't be read.
    """
    password: str | None = args.password
    if args.password_file is not None:
        stdin = stdin or sys.stdin
        with arguments.opened(args.password_file, "--password-file", stdin) as stream:
            # Only this line is awaited from a terminal or a pipe, and one character more than a
            # password may have, with the line's end.
            line = stream.readline(LONGEST_PASSWORD + 3)
        password = line.removesuffix("\n").removesuffix("\r")
    return password
