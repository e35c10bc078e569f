# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server create`` and ``rebuild``: what takes an image."""

from __future__ import annotations

import argparse
import pathlib
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ironic_virt import exceptions, virt
from ironic_virt.cmd import arguments, output, server_view
from ironic_virt.cmd.commands import Cells, Row, argument, flag, group, several
from ironic_virt.cmd.waiting import Asking, AskOne, waiting
from ironic_virt.compute import images
from ironic_virt.compute.errors import InvalidRequest

if TYPE_CHECKING:
    from ironic_virt.compute.db.records import Instance, NewInstance

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 2.0
"""Seconds between two searches for a node while some are being cleaned."""

_KEY_TYPES = ("ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-")


def _image_options(default: str | None = None) -> Row:
    """Make the arguments of an image.

    :param default: the image without ``--image``; ``None``: ``--image`` is required.
    """
    return group(
        "the image",
        argument(
            "--image <image>",
            "An http(s)://, file:/// or oci:// URL, or the ID of an image in Glance"
            + (f" (default: {default})." if default else "."),
            required=default is None,
        ),
        argument(
            "--image-checksum <checksum>",
            "MD5, SHA-256 or SHA-512 in hex, or the URL of a file of such digests;"
            " needed for http(s).",
            needs="image",
        ),
        argument(
            "--image-format <format>",
            "The image's format, such as raw or qcow2 (default: raw for an http(s) URL that ends"
            " in .raw; else Ironic detects it).  Needed for a URL that ends in .img.",
            needs="image",
        ),
        several(
            *("--image-property <key=value>", "image_properties"),
            "A property of the image; kernel_id and ramdisk_id make it a partition image",
            needs="image",
        ),
    )


class Create(Asking, output.ShowOne):
    """Create servers: choose nodes and build the servers there.

    The request is complete when this command ends; the node's compute service carries it
    out. If there is no node, nothing is requested, and one line says why, filter by filter.
    With --wait, the command waits for nodes that are being cleaned.
    """

    examples = """\
server create --flavor gold --wait web \\
      --image https://images.example.org/debian.raw --image-checksum 8b1f...e0 \\
      --port 5e4f2c7a-6a4f-4a60-9a38-0a4d6a5d2f11 --key ~/.ssh/id_ed25519.pub
server create --flavor gold --image file:///images/debian.raw --count 3 web
server create --flavor gold --image file:///images/debian.raw --wait web \\
      --network address=192.0.2.10/24,gateway=192.0.2.1,dns=192.0.2.53
server create --flavor gold --wait web -f value -c id \\
      --image 3f0c7c1e-4a3a-4d52-a0f6-0b7d1b0a4f0e
"""
    verb = "create"
    takes = (
        argument(
            "name <server-name>", "Name of the server; several are named <server-name>-1, ..."
        ),
        argument(
            "--flavor <flavor>",
            "The flavor, which decides on the node ('ironic-virt flavor list').",
            required=True,
        ),
        _image_options(),
        group(
            "the server",
            several(
                *("--port <vif-id>", "ports"), "ID of a VIF to attach, such as a port in Neutron"
            ),
            several(
                *("--network address=<ip>/<prefix>[,gateway=<ip>][,dns=<ip>]...", "networks"),
                "Without Neutron: the address of the node's next free network port, for the"
                " config drive",
                type=arguments.network,
            ),
            argument(
                "--user-data <file>", "A file with user data for the config drive, text or binary."
            ),
            argument("--key <file>", "A file with a public SSH key for the config drive."),
            argument(
                "--key-name <name>",
                "Name of the key (default: the file's name).",
                needs="key",
            ),
            several(
                *("--property <key=value>", "properties"),
                "A property of the server, also written to its config drive",
            ),
            argument(
                "--node <uuid>",
                "Build it on this node or not at all. The node must fit the flavor and be free.",
            ),
        ),
        argument(
            "--node-timeout SECONDS",
            "With --wait: how long to wait for a node while suitable ones are being cleaned"
            " (default: %(default)s; 0: not at all).",
            type=arguments.count,
            default=900,
        ),
        argument("--count <count>", "Create this many servers, or none (default: 1).", default=1),
        *waiting(verb),
    )

    def columns_of(self, args: argparse.Namespace) -> Cells:
        return server_view.LIST_COLUMNS if args.count > 1 else server_view.SHOW_COLUMNS

    def check(self, args: argparse.Namespace) -> None:
        if args.count > 1 and args.formatter == "shell":
            self.refuse("argument -f: shell shows only one server; use json, yaml or value")

    def act(self, args: argparse.Namespace) -> Any:
        from ironic_virt.compute.db import records

        key, user_data = args.key, args.user_data
        new = records.NewInstance(
            uuid=str(uuid.uuid4()),
            display_name=args.name,
            image=_make_image(args),
            ports=tuple(virt.Vif(port) for port in args.ports),
            networks=tuple(args.networks),
            user_data=None if user_data is None else arguments.content(user_data, "--user-data"),
            key_name=None if key is None else args.key_name or pathlib.Path(key).stem,
            public_key=None if key is None else _public_key(key),
            properties=args.properties,
            requested_node=args.node,
            flavor=self.db.flavors.get(args.flavor),
        )
        return self.follow(self._created(new, args), args)

    def shown(self, result: Any, args: argparse.Namespace) -> Any:
        columns = self.columns_of(args)
        return output.table(columns, result) if args.count > 1 else output.one(columns, result[0])

    def _created(self, new: NewInstance, args: argparse.Namespace) -> Sequence[Instance]:
        """Request the servers; with ``--wait``, repeat while nodes for them are being cleaned.

        The records notify nobody of a change, so this polls.
        """
        bound = args.node_timeout if args.wait else 0.0
        deadline, pause, shown = time.monotonic() + bound, _FIRST_PAUSE, ""
        while True:
            try:
                return self.requests.create(new, args.count)
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
        """Print one server as a table of its fields, several as a list; return the exit code."""
        if parsed_args.count == 1:
            return super().produce_output(parsed_args, column_names, data)
        names, selector = self._generate_columns_and_selector(parsed_args, column_names)
        # The table goes through its rows more than once.
        rows = [tuple(self._compress_iterable(row, selector)) if selector else row for row in data]
        # All formats of one thing can show several, except for the one refused before.
        self.formatter.emit_list(names, rows, self.app.stdout, parsed_args)  # type: ignore[attr-defined]
        return 0


class Rebuild(AskOne):
    """Rebuild a server: write an image to its node again.

    Everything on its disk is lost. It keeps its node, its ports and its ID, and gets a new
    config drive. If the rebuild is refused before Ironic begins, the server stays as it is; if
    it fails later, the status is ERROR, and the server's fault says what is on the disk.
    """

    verb = "rebuild"
    examples = """\
server rebuild --wait web
server rebuild web --image https://images.example.org/debian.raw \\
      --image-checksum 8b1f...e0
"""
    takes = (
        _image_options(default="its present image"),
        flag(
            "--preserve-ephemeral",
            "Keep the ephemeral disk; needs a partition image, which must contain"
            " /boot/grub/i386-pc if the node boots by BIOS.",
        ),
        *waiting(verb),
    )

    def values(self, args: argparse.Namespace) -> dict[str, Any]:
        image = None if args.image is None else _make_image(args)
        return {"image": image, "preserve_ephemeral": args.preserve_ephemeral}


def _make_image(args: argparse.Namespace) -> virt.ImageMeta:
    return images.image(
        args.image,
        checksum=args.image_checksum,
        disk_format=args.image_format,
        properties=args.image_properties,
    )


def _public_key(file: str) -> str:
    content = arguments.content(file, "--key")
    if isinstance(content, bytes):
        raise InvalidRequest(f"--key {file}: not UTF-8 text")
    lines = content.strip().splitlines()
    if len(lines) != 1 or not lines[0].startswith(_KEY_TYPES) or len(lines[0].split()) < 2:
        # It may be the private key: nothing of it is shown.
        raise InvalidRequest(f"--key {file}: not a one-line SSH public key")
    return lines[0]
