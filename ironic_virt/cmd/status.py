# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-status upgrade check``: whether a host is ready for this version of the package.

It is run with the file of the host's service, before that is restarted.  If ``compute_driver`` is
this driver's name for Nova, the file is a nova-compute's; else it is one of the reference compute
service.  Nothing is changed.

Exit codes are those of oslo.upgradecheck: 0 ready, 1 with warnings, 2 not ready, 255 the check
itself failed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

from oslo_config import cfg

from ironic_virt import conf as our_conf
from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.cmd import arguments, configured
from ironic_virt.sharding.policy import Policy

_NOVAS_FILE = "/etc/nova/nova.conf"
_NOT_CHECKED = 255
_BATCH = 50
"""Servers to deploy at a time, by Ironic's documentation."""
_OF_NOVA = ("ironic_virt.IronicDriver", "ironic.IronicDriver")


Check = Callable[[cfg.ConfigOpts], str | Sequence[str]]
"""Returns a remark or warnings; raises an IronicVirtError if the host is not ready."""


class NotReady(exceptions.IronicVirtError):
    """The host is not ready for this version."""


def check_release(conf: cfg.ConfigOpts) -> str:
    """Whether the driver works with this release of Nova."""
    from ironic_virt.nova import options

    options.check_release()
    return ""


def check_novas_options(conf: cfg.ConfigOpts) -> Sequence[str]:
    """Whether the options of ``[ironic]`` are valid, and each is read."""
    from ironic_virt.nova import options

    options.check_options(conf)
    return list(options.unknown_names(conf))


def check_sharding(conf: cfg.ConfigOpts) -> Sequence[str]:
    """Whether the service's nodes are well defined, without deprecated options."""
    return Policy.from_conf(conf, conf.host).warnings


def check_builds(conf: cfg.ConfigOpts) -> Sequence[str]:
    """Whether a service with pools builds enough servers at a time."""
    from ironic_virt.conf import unknown

    limit = unknown.read_values(conf, "DEFAULT").get("max_concurrent_builds", "10")
    is_number = limit.isdecimal()
    if conf.ironic.node_selection != "ironic" or (is_number and int(limit) >= _BATCH):
        return []
    meaning = "the rest of a larger batch waits in Nova"
    if is_number and int(limit) == 0:
        meaning = "it no longer means no limit, but 10, with native threads (default from 2026.2)"
    return [
        f"[DEFAULT] max_concurrent_builds is {limit}: {meaning}. Set it to {_BATCH}, the batch "
        "that Ironic advises; all services together should not exceed [conductor] "
        "max_concurrent_deploy times the number of conductors"
    ]


def check_ironic(conf: cfg.ConfigOpts) -> str:
    """Whether Ironic answers, and is not too old."""
    return f"Ironic's API is {IronicClient.from_conf(conf).single_try().versions.maximum}"


def check_database(conf: cfg.ConfigOpts) -> str:
    """Whether the tables are of this version of the package, or not there yet."""
    from ironic_virt.compute.db import Database
    from ironic_virt.compute.errors import SchemaMismatch

    with contextlib.closing(Database(conf)) as database:
        try:
            database.open(make=False)
        except SchemaMismatch as error:
            # The service creates missing tables.
            if error.version is not None:
                raise NotReady(str(error)) from error
    return ""


NOVAS_CHECKS: Sequence[tuple[str, Check]] = (
    ("Release of Nova", check_release),
    ("Options of [ironic]", check_novas_options),
    ("Which nodes are the service's", check_sharding),
    ("Builds at a time", check_builds),
    ("Ironic", check_ironic),
)
CHECKS: Sequence[tuple[str, Check]] = (
    ("Options", our_conf.check),
    ("Which nodes are the service's", check_sharding),
    ("Ironic", check_ironic),
    ("Database", check_database),
)


# -- the command --------------------------------------------------------------


def is_of_nova(files: Sequence[str]) -> bool:
    """Whether files are those of a nova-compute; of several the last one counts.

    :raises InvalidConfiguration: one can't be read.
    """
    from ironic_virt.fleet import options

    return options.read("", files).defaults.get("compute_driver") in _OF_NOVA


def _usual_files() -> list[str]:
    """The files to read if none is named; on a host with Nova, that of Nova.

    :raises ValueError: the environment names a file that can't be read.
    """
    if os.environ.get(configured.ENVIRONMENT) or not pathlib.Path(_NOVAS_FILE).is_file():
        return configured.config_files([])
    return [_NOVAS_FILE]


def _make_conf(novas: bool) -> cfg.ConfigOpts:
    if novas:
        from ironic_virt.nova import options

        return options.make_conf()
    from ironic_virt.conf import database

    conf = cfg.ConfigOpts()
    our_conf.register_opts(conf)
    database.register_opts(conf)
    return conf


def _make_commands(conf: cfg.ConfigOpts, checks: Sequence[tuple[str, Check]], library: Any) -> Any:
    """The commands as oslo.upgradecheck wants them."""

    def asked(check: Check) -> Callable[[Any], Any]:
        def ask(commands: Any) -> Any:
            try:
                result = check(conf)
            except exceptions.IronicVirtError as exc:
                return library.Result(library.Code.FAILURE, str(exc))
            is_warned = result and not isinstance(result, str)
            code = library.Code.WARNING if is_warned else library.Code.SUCCESS
            return library.Result(code, (". ".join(result) if is_warned else result) or None)

        return ask

    class Commands(library.UpgradeCommands):  # type: ignore[misc]
        _upgrade_checks = tuple((name, asked(check)) for name, check in checks)

    return Commands()


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ironic-virt-status`` with ``argv``, the process's own by default."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--config-file", action="append", dest="files", default=[])
    named = parser.parse_known_args(words)[0].files
    try:
        files = named or _usual_files()
        library = importlib.import_module("oslo_upgradecheck.upgradecheck")
        novas = is_of_nova(files)
        conf, checks = _make_conf(novas), NOVAS_CHECKS if novas else CHECKS
    except ModuleNotFoundError as exc:
        sys.stderr.write(f"ironic-virt-status: {exceptions.ExtrasMissing(exc.name, 'compute')}\n")
        return _NOT_CHECKED
    except (exceptions.InvalidConfiguration, ValueError) as exc:
        sys.stderr.write(f"ironic-virt-status: {exc}\n")
        return _NOT_CHECKED
    with arguments.complaining(words):
        result: int = library.main(
            conf,
            project="nova" if novas else "ironic-virt",
            upgrade_command=_make_commands(conf, checks, library),
            argv=words,
            default_config_files=files,
        )
    return result


if __name__ == "__main__":
    sys.exit(main())
