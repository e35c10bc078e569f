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
import errno
import gc
import logging
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any, TypeGuard

import stevedore
from cliff import app, commandmanager
from cliff.command import Command
from cliff.help import HelpCommand, HelpExit

from ironic_virt import exceptions, exit_codes
from ironic_virt.cmd import arguments, configured
from ironic_virt.cmd.commands import Row, argument, flag, one_of
from ironic_virt.compute.errors import InvalidRequest
from ironic_virt.exit_codes import ExitCode

LOG = logging.getLogger(__name__)

# It logs each error that it passes on, with a traceback.
_LOGS_TWICE = "oslo_db.sqlalchemy.exc_filters"
_MOST_NAMED = 4
_CONSOLE_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
_LOUDNESS: dict[str, Any] = {"dest": "verbose_level", "default": 1}


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
    _tells_of_interrupts = False

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
        """Return the parser of the options that stand before a command."""
        parser = argparse.ArgumentParser(
            prog=self.NAME,
            description=description,
            epilog=exit_codes.epilog(finds=self.FINDS),
            add_help=False,
            allow_abbrev=False,
            **(argparse_kwargs or {}),
        )
        shown: Any = {"action": "version", "version": f"{self.NAME} {version}"}
        quiet: Any = {"action": "store_const", "const": 0}
        for row in (
            # Looked at after parsing, so that behind a command it means that command.
            flag(
                *("-h --help", "Show this message, or that of a command, and exit."),
                dest="deferred_help",
            ),
            flag("--version", "Show the version and exit.", **shown),
            one_of(
                flag(
                    *("-v --verbose", "Show what is being done; given twice, show every detail."),
                    **_LOUDNESS,
                    action="count",
                ),
                flag("-q --quiet", "Show errors only.", **_LOUDNESS, **quiet),
            ),
            *self.CONFIG_FILES,
            argument("--log-file PATH", "Also write every detail to this file."),
            flag("--debug", "Show a traceback when something fails."),
        ):
            row(parser)
        return parser

    def configure_logging(self) -> None:
        """Send log lines to standard error and, where asked, to a file."""
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

    def prepare_to_run_command(self, cmd: Command) -> None:
        """Have the garbage collector ignore everything that was imported so far.

        Its first run over all of that would take longer than most commands do.
        """
        gc.freeze()

    def run(self, argv: list[str]) -> int:
        """Run a command line to its end and return its exit code."""
        for word in argv:
            try:
                word.encode()
            except UnicodeEncodeError:
                # Neither a database nor Ironic could take it.
                self.stderr.write(f"{self.NAME}: argument {word!r} is not UTF-8 text\n")
                return self.REFUSED
        with arguments.complaining(argv, self.REFUSED):
            code = super().run(argv)
        if code == ExitCode.INTERRUPTED and not self._tells_of_interrupts:
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
        self._tells_of_interrupts = getattr(command, "tells_of_interrupts", False)
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
            self._report(error)
            is_refused = isinstance(error, InvalidRequest | exceptions.InvalidConfiguration)
            return self.REFUSED if is_refused or _is_of_output(error) else ExitCode.FAILED

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

    def _report(self, error: Exception) -> None:
        # Ours are written for people; anything else needs at least its kind.
        message = " ".join(str(error).split())
        if _is_of_output(error):
            message = f"can't write to standard output: {os.strerror(error.errno or 0)}"
        elif not isinstance(error, exceptions.IronicVirtError):
            message = f"{type(error).__name__}: {message}"
        LOG.error("%s", message, exc_info=self.options.debug)


def _is_of_output(error: Exception) -> TypeGuard[OSError]:
    """Whether a stream could not be written to: nothing else fails so without a file's name."""
    return isinstance(error, OSError) and error.errno == errno.ENOSPC and not error.filename


def run(application: type[Shell], argv: Sequence[str] | None = None) -> int:
    """Run an application.

    :param argv: its arguments, the process's own by default.
    :returns: the exit code.
    """
    for name in ("stdout", "stderr"):
        # The caller may have closed it to see no output.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    try:
        return application().run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ironic-virt`` with ``argv``, the process's own by default."""
    return run(Shell, argv)


if __name__ == "__main__":
    sys.exit(main())
