# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt server rebuild``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ironic_virt.cmd import image_arguments, output, server_view, waiting


class Rebuild(output.ShowOne):
    """Rebuild a server: have an image written onto its node anew.

    All that is on its disk is lost. It keeps its node, its ports and its ID, and gets a
    new config drive. If it is refused before Ironic has begun, the server stays as it
    is; if it fails later, it is in status ERROR, and its fault says what is on the disk.
    """

    _errors: list[str]

    def get_epilog(self) -> str:
        """Return examples."""
        return """\
examples:
  ironic-virt server rebuild --wait web
  ironic-virt server rebuild web --image https://images.example.org/debian.raw \\
      --image-checksum 8b1f...e0

exit codes:
  0 asked for, or with --wait: rebuilt; 1 it can't be asked for, or has failed; 2 asked
  for wrongly
"""

    def columns(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        """See :class:`output.ShowOne`."""
        return server_view.SHOW_COLUMNS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of this command's options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("server", metavar="<server>", help="Its name or ID.")
        image_arguments.add_options(parser, default="the one that it has")
        parser.add_argument(
            "--preserve-ephemeral",
            action="store_true",
            help="Leave the ephemeral disk as it is; that takes a partition image.",
        )
        waiting.add_options(parser, "it runs again")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        """Rebuild a server."""
        if parsed_args.timeout is not None and not parsed_args.wait:
            self.refuse("argument --timeout: it goes with --wait")
        if option := image_arguments.lone_option(parsed_args):
            self.refuse(f"argument {option}: it goes with --image")
        image = image_arguments.image(parsed_args) if parsed_args.image else None
        with self.configured(parsed_args) as (conf, database):
            from ironic_virt.compute.requests import Requests

            requests = Requests(conf, database)
            asked = requests.rebuild(
                parsed_args.server, image, preserve_ephemeral=parsed_args.preserve_ephemeral
            )
            if parsed_args.wait:
                (outcome,) = waiting.wait(
                    requests,
                    [asked],
                    f"Rebuilding {asked.instance.name}",
                    self.app.stderr,
                    timeout=parsed_args.timeout,
                    quiet=self.app.options.verbose_level == 0,
                )
                self._errors += [outcome.error] if outcome.error is not None else []
            instance = database.instances.get(asked.instance.uuid, deleted=True)
            return output.one(server_view.fields(instance, database.faults.latest(instance.uuid)))

    def run(self, parsed_args: argparse.Namespace) -> int:
        """See :class:`cliff.command.Command`."""
        self._errors = []
        code = super().run(parsed_args)
        for error in self._errors:
            self.app.LOG.error("Server %s: %s", parsed_args.server, " ".join(error.split()))
        return code or (1 if self._errors else 0)
