# SPDX-License-Identifier: Apache-2.0

"""The options, without a global ``CONF``.

Options are passed in as a :class:`oslo_config.cfg.ConfigOpts`:
:func:`register_opts` adds ours to it, :func:`check` reads every one of them
once, so that a wrong value is an error at start and not in the middle of a
deployment.

Those of ``[ironic]`` bring keystoneauth1 with them, which takes long to import; a command
that only reads records does without.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.conf import compute, scheduler, service, unknown

__all__ = ["check", "check_but_ironic", "load", "read", "register_but_ironic", "register_opts"]

UNSET = "a $ in it refers to an option that is not there; write $$ for a $ itself"


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options of each of our groups; harmless when done twice."""
    from ironic_virt.conf import ironic

    register_but_ironic(conf)
    ironic.register_opts(conf)


def register_but_ironic(conf: cfg.ConfigOpts) -> None:
    """Register the options of commands that ask nothing of Ironic."""
    compute.register_opts(conf)
    service.register_opts(conf)
    scheduler.register_opts(conf)


def load(config_files: Sequence[str], args: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read ini files into a new configuration, and check it.

    :param config_files: paths; a later file overrides an earlier one.
    :param args: command line arguments in oslo.config's form.
    :raises InvalidConfiguration: a file can't be read, or a value is wrong.
    """
    conf = cfg.ConfigOpts()
    register_opts(conf)
    read(conf, config_files, args)
    check(conf)
    return conf


def read(
    conf: cfg.ConfigOpts, config_files: Sequence[str], args: Sequence[str] = (), **command: Any
) -> None:
    """Read ini files into a configuration whose options are registered, and check nothing.

    :param command: what the help of the command says that ``args`` belong to, as
        :class:`oslo_config.cfg.ConfigOpts` takes it.
    :raises InvalidConfiguration: a file can't be read.
    """
    try:
        conf(
            args=list(args),
            project="ironic-virt",
            default_config_files=list(config_files),
            default_config_dirs=[],
            **command,
        )
    except cfg.ConfigFileValueError as exc:
        raise exceptions.InvalidConfiguration("a value in the file", str(exc)) from exc
    except cfg.Error as exc:
        raise exceptions.InvalidConfiguration("--config-file", reason_of(exc)) from None
    except UnicodeDecodeError as exc:
        raise exceptions.InvalidConfiguration("--config-file", f"no text in UTF-8: {exc}") from exc
    _anchor(conf)


def reason_of(error: Exception) -> str:
    """Why a file can't be read, without the line that is wrong: it may have a password."""
    if not isinstance(error, cfg.ConfigFileParseError):
        return str(error)
    return f"not an ini file: {error.config_file}, line {getattr(error.__context__, 'lineno', '')}"


def _anchor(conf: cfg.ConfigOpts) -> None:
    """Have a relative ``state_path`` begin at the directory of the file that names it."""
    with contextlib.suppress(cfg.NoSuchOptError):
        location = conf.get_location("state_path")
        if location is not None and location.location == cfg.Locations.user:
            directory = os.path.dirname(os.path.abspath(location.detail))
            conf.set_override("state_path", os.path.join(directory, conf.state_path))


def check(conf: cfg.ConfigOpts) -> list[str]:
    """Read each of our options once.

    oslo.config parses a value when it is read, so an invalid one would otherwise be reported
    only when it is first needed.

    :returns: a warning for each name in the files that is not an option.
    :raises InvalidConfiguration: names the first option with a wrong value, or an unknown name
        that looks like an option that decides which nodes are this service's.
    """
    from ironic_virt.conf import ironic

    warnings = check_but_ironic(conf)
    unread = unknown.check(conf, ironic.GROUP, ironic.known_names(conf))
    try:
        read_each(ironic.GROUP, conf[ironic.GROUP], ironic.all_options())
        ironic.check_adapter(conf)
        ironic.check_auth(conf)
    except exceptions.InvalidConfiguration as exc:
        if not unread:
            raise
        # What is missing may be there, misspelt.
        reason = ". ".join([exc.reason, *unread])
        raise exceptions.InvalidConfiguration(exc.option, reason) from exc
    unknown.check_same(conf, ironic.GROUP, "shard_key", "shard")
    return warnings + unread


def check_but_ironic(conf: cfg.ConfigOpts) -> list[str]:
    """Read every option but those of ``[ironic]`` once.

    :returns: a warning for each option in the files that is not read.
    :raises InvalidConfiguration: naming the first option with a wrong value.
    """
    read_each("DEFAULT", conf, [*compute.OPTIONS, *service.DEFAULT_OPTIONS])
    read_each(service.GROUP, conf[service.GROUP], service.OPTIONS)
    read_each(scheduler.GROUP, conf[scheduler.GROUP], scheduler.OPTIONS)
    service.check(conf)
    warnings = []
    for part in (service, scheduler):
        known = {*conf[part.GROUP], *unknown.names(part.OPTIONS)}
        warnings += unknown.check(conf, part.GROUP, known)
    return warnings


def read_each(section: str, group: Any, opts: Iterable[cfg.Opt]) -> None:
    """Read options of a group.

    :raises InvalidConfiguration: naming the first one with a wrong value.
    """
    for opt in opts:
        try:
            getattr(group, opt.dest)
        except (ValueError, cfg.TemplateSubstitutionError) as exc:
            # oslo.config's own text repeats the option and adds the file.
            raise exceptions.InvalidConfiguration(f"[{section}] {opt.dest}", str(exc)) from exc
        except cfg.NoSuchOptError:
            # Its text repeats what may be part of a password.
            raise exceptions.InvalidConfiguration(f"[{section}] {opt.dest}", UNSET) from None
