# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server rebuild``."""

from __future__ import annotations

import argparse
from typing import Any

from ironic_virt.cmd import image_arguments, server
from ironic_virt.cmd.commands import argument


class Rebuild(server.AskOne):
    """Rebuild a server: write an image onto its node again.

    All that is on its disk is lost. It keeps its node, its ports and its ID, and gets a
    new config drive. If it is refused before Ironic has begun, the server stays as it
    is; if it fails later, it is in status ERROR, and its fault says what is on the disk.
    """

    verb = "rebuild"

    epilog = """\
examples:
  ironic-virt server rebuild --wait web
  ironic-virt server rebuild web --image https://images.example.org/debian.raw \\
      --image-checksum 8b1f...e0
"""

    takes = (
        image_arguments.options(default="the one that it has"),
        argument(
            "--preserve-ephemeral",
            action="store_true",
            help="Leave the ephemeral disk as it is; that takes a partition image.",
        ),
    )

    def arguments(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """The verb's arguments."""
        if option := image_arguments.lone_option(parsed_args):
            self.refuse(f"argument {option}: it goes with --image")
        image = image_arguments.image(parsed_args) if parsed_args.image else None
        return {"image": image, "preserve_ephemeral": parsed_args.preserve_ephemeral}
