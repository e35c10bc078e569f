# SPDX-License-Identifier: Apache-2.0

"""What ``ironic-virt-compute`` does: from its arguments to its exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import metadata

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import conf as options
from ironic_virt import exceptions, exit_codes, logs
from ironic_virt.cmd import arguments, configured
from ironic_virt.conf import unknown
from ironic_virt.exit_codes import ExitCode

LOG = logging.getLogger(__name__)

PROG = "ironic-virt-compute"
PROJECT = "ironic-virt"
_DESCRIPTION = """\
Deploy servers on bare metal through OpenStack Ironic: the reference compute
service. It carries out what 'ironic-virt server create' and the like write into
the database, until SIGTERM ends it. SIGHUP has it read its files again.
"""


def main(argv: Sequence[str] | None, hung_up: Callable[[], bool]) -> int:
    """Run ``ironic-virt-compute``.

    :param argv: its arguments; ``None``: those of the process.
    :param hung_up: says whether SIGHUP has come while the service was starting.
    :returns: the exit code.
    """
    version = metadata.version(PROJECT)
    words = sys.argv[1:] if argv is None else argv
    is_named = any(word.startswith("--config-file") for word in words)
    try:
        from ironic_virt.compute.engine import process
        from ironic_virt.conf import database
    except ModuleNotFoundError as error:
        return _fail(str(exceptions.ExtrasMissing(error.name, "compute")))
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    database.register_opts(conf)
    logging.register_options(conf)
    try:
        with arguments.complaining(argv):
            options.read(
                conf,
                [] if is_named else configured.config_files([]),
                words,
                prog=PROG,
                version=f"{PROG} {version}",
                usage=f"{PROG} [--config-file FILE]... [option]...",
                description=_DESCRIPTION,
                epilog=exit_codes.epilog(service=True),
            )
        warnings = options.check(conf) + unknown.check(conf, "DEFAULT", {*conf})
        database.check(conf)
        elsewhere = _logs_elsewhere(conf)
        # Standard output is oslo.log's own choice.
        conf.set_default("use_stderr", not elsewhere)
        logging.setup(conf, PROJECT, version)
        logs.tell_errors_once()
        for warning in warnings:
            LOG.warning("[option-questionable] %s", warning)
    except (exceptions.InvalidConfiguration, ValueError) as error:
        return _fail(str(error), ExitCode.REFUSED)
    except (logging.LogConfigError, OSError) as error:
        return _fail(f"the log can't be set up: {error}", ExitCode.REFUSED)
    try:
        process.run(conf, version, hung_up=hung_up)
        return ExitCode.DONE
    except exceptions.IronicVirtError as error:
        logging.getLogger("ironic_virt.cmd.compute").error("[service-ends] %s", error)
        if elsewhere:
            _fail(str(error))
        return process.exit_code(error, has_standby=process.has_standby(conf))


def _logs_elsewhere(conf: cfg.ConfigOpts) -> bool:
    """Whether log lines go elsewhere than to where the command was started."""
    return bool(
        conf.log_config_append
        or conf.log_file
        or conf.log_dir
        or conf.use_syslog
        or conf.use_journal
    )


def _fail(message: str, code: int = ExitCode.FAILED) -> int:
    print(f"{PROG}: {' '.join(message.split())}", file=sys.stderr)
    return code
