# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server create``."""

from __future__ import annotations

import argparse
import pathlib
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions, virt
from ironic_virt.cmd import arguments, files, image_arguments, output, server_view
from ironic_virt.cmd.commands import argument, group
from ironic_virt.cmd.waiting import Asking
from ironic_virt.compute.errors import InvalidRequest

if TYPE_CHECKING:
    from ironic_virt.compute.api import Request, Requests
    from ironic_virt.compute.db.records import NewInstance

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 2.0
"""Seconds between the looks for a node while some are being cleaned."""

_KEY_TYPES = ("ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-")


class Create(Asking, output.ShowOne):
    """Create servers: choose nodes for them and have them built there.

    The request is complete when this command ends; the compute service that has
    the node carries it out. If there is no node, nothing is requested, and one line
    says filter by filter why. With --wait, a node that is being cleaned is waited for.
    """

    epilog = """\
examples:
  ironic-virt server create --flavor gold --wait web \\
      --image https://images.example.org/debian.raw --image-checksum 8b1f...e0 \\
      --port 5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11 --key ~/.ssh/id_ed25519.pub
  ironic-virt server create --flavor gold --image file:///images/debian.raw --max 3 web
  ironic-virt server create --flavor gold --image file:///images/debian.raw --wait web \\
      --network address=192.0.2.10/24,gateway=192.0.2.1,dns=192.0.2.53
  ironic-virt server create --flavor gold --wait web -f value -c id \\
      --image 3f0c7c1e-4a3a-4d52-a0f6-0b7d1b0a4f0e
"""

    verb = "create"
    takes = (
        argument(
            "name",
            metavar="<server-name>",
            type=arguments.name,
            help="What to call it; several are called <server-name>-1 and so on.",
        ),
        argument(
            "--flavor",
            required=True,
            metavar="<flavor>",
            type=arguments.name,
            help="What to choose a node by ('ironic-virt flavor list').",
        ),
        image_arguments.options(),
        group(
            "the server",
            argument(
                "--port",
                action="append",
                default=[],
                dest="ports",
                metavar="<vif-id>",
                type=arguments.name,
                help="The id of a VIF to attach, as of a port in Neutron (may be repeated).",
            ),
            argument(
                "--network",
                action="append",
                default=[],
                dest="networks",
                metavar="address=<ip>/<prefix>[,gateway=<ip>][,dns=<ip>]...",
                type=arguments.network,
                help="Where there is no Neutron: the address of the node's next free network port,"
                " for the config drive (may be repeated).",
            ),
            argument(
                "--user-data",
                metavar="<file>",
                help="A file with user data for the config drive, text or not.",
            ),
            argument(
                "--key",
                metavar="<file>",
                help="A file with a public SSH key for the config drive.",
            ),
            argument(
                "--key-name",
                metavar="<name>",
                type=arguments.name,
                help="What to call the key (default: the file's name).",
            ),
            argument(
                "--property",
                action=arguments.KeyValue,
                default={},
                dest="properties",
                metavar="<key=value>",
                help="A property of the server, which stands on its config drive too (may be"
                " repeated).",
            ),
            argument(
                "--node",
                metavar="<uuid>",
                type=arguments.node_uuid,
                help="Build it on this node or not at all. It has to fit the flavor and to be"
                " free.",
            ),
        ),
        argument(
            "--node-timeout",
            type=arguments.count,
            default=900,
            metavar="SECONDS",
            help="With --wait: how long to wait for a node while some that would do are being"
            " cleaned after their last server (default: %(default)s; 0: not at all).",
        ),
        group(
            "how many",
            argument(
                "--min",
                type=arguments.positive,
                default=1,
                metavar="<count>",
                help="Create so many at least, or none (default: 1).",
            ),
            argument(
                "--max",
                type=arguments.positive,
                metavar="<count>",
                help="Create so many if there are nodes (default: --min).",
            ),
        ),
    )

    def columns_of(self, parsed_args: argparse.Namespace) -> output.Cells:
        """See :class:`output.Columns`."""
        several = _most(parsed_args) > 1
        return server_view.LIST_COLUMNS if several else server_view.SHOW_COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Create servers."""
        most = _most(parsed_args)
        self._check(parsed_args, most)
        image = image_arguments.image(parsed_args)
        user_data, public_key = _user_data(parsed_args), _key(parsed_args)
        with self.requests(parsed_args) as (requests, database):
            from ironic_virt.compute.db import records

            wanted = records.NewInstance(
                uuid=str(uuid.uuid4()),
                display_name=parsed_args.name,
                flavor=database.flavors.get(parsed_args.flavor),
                image=image,
                ports=tuple(virt.Vif(port) for port in parsed_args.ports),
                networks=tuple(parsed_args.networks),
                user_data=user_data,
                key_name=_key_name(parsed_args) if public_key else None,
                public_key=public_key,
                properties=parsed_args.properties,
                requested_node=parsed_args.node,
            )
            created = self._created(requests, wanted, parsed_args)
            instances = self.follow(requests, created, parsed_args)
            if most > 1:
                return output.table(server_view.LIST_COLUMNS, instances)
            return server_view.one(instances[0])

    def _created(
        self, requests: Requests, wanted: NewInstance, parsed_args: argparse.Namespace
    ) -> Sequence[Request]:
        """Ask for the servers; with ``--wait``, again while nodes for them are being cleaned.

        The records tell nobody of a change, so they are looked at again and again.
        """
        bound = parsed_args.node_timeout if parsed_args.wait else 0.0
        deadline, pause, shown = time.monotonic() + bound, _FIRST_PAUSE, ""
        while True:
            try:
                return requests.create(wanted, least=parsed_args.min, most=_most(parsed_args))
            except exceptions.NoValidHost as nowhere:
                if not nowhere.cleaning or time.monotonic() >= deadline:
                    raise
                if nowhere.obstacles[-1] != shown:
                    shown = nowhere.obstacles[-1]
                    self.app.LOG.warning("Waiting for a node: %s", shown)
            time.sleep(min(pause, max(deadline - time.monotonic(), 0)))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        """See :class:`cliff.display.DisplayCommandBase`."""
        if _most(parsed_args) == 1:
            return super().produce_output(parsed_args, column_names, data)
        names, selector = self._generate_columns_and_selector(parsed_args, column_names)
        # The table goes through its rows more than once.
        rows = [tuple(self._compress_iterable(row, selector)) if selector else row for row in data]
        # Those that can show one thing can show several, but for the one refused before.
        self.formatter.emit_list(names, rows, self.app.stdout, parsed_args)  # type: ignore[attr-defined]
        return 0

    def _check(self, parsed_args: argparse.Namespace, most: int) -> None:
        if parsed_args.min > most:
            self.refuse(f"argument --max: {most} is less than --min {parsed_args.min}")
        if most > 1 and parsed_args.formatter == "shell":
            self.refuse("argument -f: shell is for one server; use json, yaml or value")
        if parsed_args.networks and parsed_args.ports:
            self.refuse("argument --network: it does not go with --port")
        if parsed_args.key_name is not None and parsed_args.key is None:
            self.refuse("argument --key-name: it goes with --key")


def _most(parsed_args: argparse.Namespace) -> int:
    return int(parsed_args.min if parsed_args.max is None else parsed_args.max)


def _user_data(parsed_args: argparse.Namespace) -> str | bytes | None:
    file = parsed_args.user_data
    return None if file is None else files.content(file, "--user-data")


def _key_name(parsed_args: argparse.Namespace) -> str:
    return parsed_args.key_name or pathlib.Path(parsed_args.key).stem


def _key(parsed_args: argparse.Namespace) -> str | None:
    file = parsed_args.key
    if file is None:
        return None
    found = files.content(file, "--key")
    if isinstance(found, bytes):
        raise InvalidRequest(f"--key {file}: this is no text in UTF-8")
    lines = found.strip().splitlines()
    if len(lines) != 1 or not lines[0].startswith(_KEY_TYPES) or len(lines[0].split()) < 2:
        # Perhaps it is the private one: nothing of it is shown.
        raise InvalidRequest(f"--key {file}: this is no public SSH key in one line")
    return lines[0]
