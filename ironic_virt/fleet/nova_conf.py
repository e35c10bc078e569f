# SPDX-License-Identifier: Apache-2.0

"""Nova's configuration and database, opened as ``nova-manage`` opens them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import util
from pathlib import Path

import nova
from oslo_config import cfg

from ironic_virt import exceptions


def load(files: Sequence[str], directories: Sequence[str] = ()) -> cfg.ConfigOpts:
    """Read Nova's files, and make its databases and objects usable in this process.

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
    spec = util.find_spec("nova.monkey_patch")
    if spec is not None and "def patch(backend" in Path(spec.origin or "").read_text("utf-8"):
        from nova import monkey_patch

        monkey_patch.patch(backend="threading")
