# SPDX-License-Identifier: Apache-2.0

"""``ironic-virt-compute``: the reference compute service, until a signal stops it.

It survives a SIGHUP during its imports, which take up to a second: so only the standard library
is imported before that is ignored.

Exit codes are those of :mod:`ironic_virt.exit_codes`; a second signal ends it at once.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from ironic_virt.exit_codes import ExitCode

PROG = "ironic-virt-compute"
PROJECT = "ironic-virt"
_ELSEWHERE = ("log_config_append", "log_file", "log_dir", "use_syslog", "use_journal")
_DESCRIPTION = """\
Deploy servers on bare metal through OpenStack Ironic: the reference compute
service. It carries out the requests that commands such as 'ironic-virt server
create' write to the database. SIGTERM stops it; SIGHUP makes it reread its files.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``ironic-virt-compute``.

    :param argv: its arguments; those of the process by default.
    :returns: the exit code.
    """
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        return _run_service(argv)
    finally:
        signal.signal(signal.SIGHUP, before)


def _run_service(argv: Sequence[str] | None) -> int:
    from importlib import metadata

    from oslo_config import cfg
    from oslo_log import log as logging

    from ironic_virt import conf as options
    from ironic_virt import exceptions, exit_codes, logs
    from ironic_virt.cmd import arguments, configured
    from ironic_virt.conf import unknown

    version = metadata.version(PROJECT)
    words = sys.argv[1:] if argv is None else argv
    is_named = any(word.startswith("--config-file") for word in words)
    try:
        from ironic_virt.compute.engine import process
        from ironic_virt.conf import database
    except ModuleNotFoundError as error:
        return _print_error(str(exceptions.ExtrasMissing(error.name, "compute")))
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    database.register_opts(conf)
    logging.register_options(conf)
    log = logging.getLogger("ironic_virt.cmd.compute")
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
        # Whether log lines go elsewhere than to the terminal.
        elsewhere = any(conf[name] for name in _ELSEWHERE)
        # Standard output is oslo.log's own choice.
        conf.set_default("use_stderr", not elsewhere)
        logging.setup(conf, PROJECT, version)
        logs.log_errors_once()
        for warning in warnings:
            log.warning("[option-questionable] %s", warning)
    except (exceptions.InvalidConfiguration, ValueError) as error:
        return _print_error(str(error), ExitCode.REFUSED)
    except (logging.LogConfigError, OSError) as error:
        return _print_error(f"can't set up logging: {error}", ExitCode.REFUSED)
    try:
        process.run(conf, version)
        return ExitCode.DONE
    except exceptions.IronicVirtError as error:
        log.error("[service-ends] %s", error)
        if elsewhere:
            _print_error(str(error))
        return process.exit_code(error, conf)


def _print_error(message: str, code: int = ExitCode.FAILED) -> int:
    print(f"{PROG}: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
