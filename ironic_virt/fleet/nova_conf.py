# SPDX-License-Identifier: Apache-2.0

"""Nova's configuration and database, opened as ``nova-manage`` opens them."""

from __future__ import annotations

from collections.abc import Sequence

import nova
from oslo_config import cfg

from ironic_virt import exceptions


def load(files: Sequence[str], directories: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read Nova's files, and make its databases and objects usable in this process.

    :param files: paths of ini files; none: those that oslo.config finds for Nova.
    :param directories: of such files, read after them.
    :returns: Nova's configuration, with our options of ``[ironic]`` beside its own.
    :raises InvalidConfiguration: a file can't be read, or a value is wrong.
    """
    _keep_native_threads()
    from nova import config, objects

    from ironic_virt.nova import options

    arguments = ["ironic-virt-fleet"]
    for path in files:
        arguments += ["--config-file", path]
    for path in directories:
        arguments += ["--config-dir", path]
    try:
        config.parse_args(arguments)
    except cfg.Error as exc:
        raise exceptions.InvalidConfiguration("--config-file", str(exc)) from exc
    objects.register_all()
    conf: cfg.ConfigOpts = nova.conf.CONF
    options.register_opts(conf)
    return conf


def _keep_native_threads() -> None:
    """Have Nova use this process's threads.

    From Nova 32 on it has to be told before its other modules are imported; before that it
    patches only processes of its own.
    """
    from importlib import util

    if util.find_spec("nova.monkey_patch") is None:
        return
    with open(util.find_spec("nova.monkey_patch").origin, encoding="utf-8") as file:  # type: ignore[union-attr,arg-type]
        has_choice = "def patch(backend" in file.read()
    if has_choice:
        from nova import monkey_patch

        monkey_patch.patch(backend="threading")
