# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt``: the command line, one subcommand per entry point.

Commands are found in the entry point namespace ``ironic_virt.cli``.  A command line of another
name and namespace is a subclass (:mod:`ironic_virt.cmd.manage`).  Here is what they share:
``--help`` and ``--version``, where log lines go, and how a run ends.  An error is one line on
standard error, with a traceback only under ``--debug``.

Exit codes are those of :mod:`ironic_virt.exit_codes`.
"""

import argparse
import difflib
import logging
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import stevedore
from cliff import app, commandmanager
from cliff.help import HelpCommand, HelpExit

from ironic_virt import exceptions, exit_codes
from ironic_virt.cmd import arguments, configured
from ironic_virt.cmd.commands import Row
from ironic_virt.compute.errors import InvalidRequest, one_line
from ironic_virt.exit_codes import ExitCode

LOG = logging.getLogger(__name__)

# It logs each error that it passes on, with a traceback.
_LOGS_TWICE = "oslo_db.sqlalchemy.exc_filters"
_MOST_NAMED = 4
_REFUSED = (InvalidRequest, exceptions.InvalidConfiguration, exceptions.InvalidExtraSpec)
_CONSOLE_LEVELS = (logging.WARNING, logging.WARNING, logging.INFO, logging.DEBUG)


class Commands(commandmanager.CommandManager):
    """The commands of a namespace; a command's module is imported when it is run."""

    def load_commands(self, namespace: str) -> None:
        """Note the entry points by name; cliff's own class would import all of them."""
        self.group_list.append(namespace)
        # A manager of no names finds everything and loads nothing.
        for point in stevedore.NamedExtensionManager(namespace, ()).list_entry_points():
            self.commands[point.name.replace("_", " ")] = point


class Shell(app.App):
    """The application: global options, logging, and one way to fail.

    :cvar CONFIG_FILES: the options that name its ini files.
    :cvar FINDS: whether its exit codes are those of :class:`FleetExitCode`.
    :cvar REFUSED: the exit code of a wrong command line.
    """

    NAME = "ironic-virt"
    DESCRIPTION = "Deploy servers on bare metal through OpenStack Ironic."
    COMMAND_NAMESPACE = "ironic_virt.cli"
    DEFAULT_VERBOSE_LEVEL = 1
    CONFIG_FILES: Sequence[Row] = (configured.CONFIG_FILE,)
    FINDS = False
    REFUSED: int = ExitCode.REFUSED

    def __init__(self) -> None:
        super().__init__(
            description=self.DESCRIPTION,
            version=metadata.version("ironic-virt"),
            command_manager=Commands(self.COMMAND_NAMESPACE),
            deferred_help=True,
        )

    def build_option_parser(
        self, description: str | None, version: str | None, argparse_kwargs: Any = None
    ) -> argparse.ArgumentParser:
        """Return the parser of the options that stand before a command: cliff's, and ini files."""
        more = {"epilog": exit_codes.epilog(finds=self.FINDS), "allow_abbrev": False}
        parser = super().build_option_parser(description, version, {"prog": self.NAME, **more})
        for row in self.CONFIG_FILES:
            row(parser)
        return parser

    def configure_logging(self) -> None:
        """Send log lines to standard error and, where asked, to a file.

        cliff's own shows informational lines by default, and those of libraries twice.
        """
        console = logging.StreamHandler(self.stderr)
        console.setLevel(_CONSOLE_LEVELS[: self.options.verbose_level + 1][-1])
        console.setFormatter(logging.Formatter(self.CONSOLE_MESSAGE_FORMAT))
        if not self.options.debug:
            console.addFilter(lambda record: record.name != _LOGS_TWICE)
        handlers: list[logging.Handler] = [console]
        if self.options.log_file:
            # A path that can't be written to is an error of the command line.
            try:
                log_file = logging.FileHandler(self.options.log_file, encoding="utf-8")
            except OSError as error:
                self.parser.error(f"--log-file {self.options.log_file}: {error.strerror}")
            log_file.setFormatter(logging.Formatter(self.LOG_FILE_MESSAGE_FORMAT))
            handlers.append(log_file)
        root = logging.getLogger()
        root.setLevel(min(handler.level for handler in handlers) or logging.DEBUG)
        for handler in handlers:
            root.addHandler(handler)

    def interact(self) -> None:
        """Refuse to go on without a command; there is no prompt.

        :raises SystemExit: always, with 2.
        """
        self.parser.error("which command?")

    def run(self, argv: list[str]) -> int:
        """Run a command line to its end and return its exit code."""
        with arguments.complaining(argv, self.REFUSED):
            code = super().run(argv)
        if code == ExitCode.INTERRUPTED:
            self.stderr.write(f"{self.NAME}: interrupted\n")
        return code

    def run_subcommand(self, argv: list[str]) -> int:
        """Find the command at the head of ``argv``, run it, return its exit code."""
        if argv[0].startswith("-"):
            # The parser names the option that is nearest.
            self.parser.error(f"unknown option '{argv[0]}'")
        try:
            factory, name, rest = self.command_manager.find_command(argv)
        except ValueError:
            return self._unknown_command(argv)
        command = factory(self, self.options, cmd_name=name)
        try:
            # Options in front of the command are not the command's.
            with arguments.complaining(rest, self.REFUSED):
                parsed = command.get_parser(f"{self.NAME} {name}").parse_args(rest)
                return command.run(parsed) or 0
        except HelpExit:
            return 0
        except BrokenPipeError:
            raise
        except Exception as error:
            if isinstance(command, HelpCommand) and isinstance(error, ValueError):
                return self._unknown_command(parsed.cmd)
            LOG.error("%s", one_line(error), exc_info=self.options.debug)
            return self.REFUSED if isinstance(error, _REFUSED) else ExitCode.FAILED

    def _unknown_command(self, argv: Sequence[str]) -> int:
        known = sorted(name for name, _ in self.command_manager)
        words = [word for word in argv if not word.startswith("-")]
        near = [name for name in known if name.startswith(words[0])]
        typed = " ".join(words[: max(len(name.split()) for name in near or known)])
        near = difflib.get_close_matches(typed, near or known, cutoff=0.8) or near
        near = near or difflib.get_close_matches(typed, known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"'{self.NAME} --help' lists them"
        if len(near) > _MOST_NAMED:
            hint = f"'{self.NAME} help {words[0]}' lists its commands"
        self.stderr.write(f"{self.NAME}: no command '{typed}'; {hint}\n")
        return self.REFUSED


def run(application: type[Shell], argv: Sequence[str] | None = None) -> int:
    """Run an application.

    :param argv: its arguments, the process's own by default.
    :returns: the exit code.
    """
    for name in ("stdin", "stdout", "stderr"):
        # The caller may have closed it, to give no input or to see no output.  It stays open.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115
    try:
        return application().run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ironic-virt`` with ``argv``, the process's own by default."""
    return run(Shell, argv)


if __name__ == "__main__":
    sys.exit(main())
