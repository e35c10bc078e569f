# SPDX-License-Identifier: Apache-2.0

"""Options in a file that are not read: misspelt, or of another release.

oslo.config ignores them silently.  If such an option is the shard, the service would take all
nodes.  Only files are checked.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.conf.ironic_options import DECISIVE

_ALIKE = 0.75
_UNREADABLE = (OSError, ValueError, cfg.ParseError)


def read_group(
    conf: cfg.ConfigOpts, group: str, unreadable: tuple[type[Exception], ...] = _UNREADABLE
) -> dict[str, tuple[str, str]]:
    """Return what the files say in a group: by name the value as written, and the last file.

    :param unreadable: errors after which a file is left out; it may just be being replaced.
    """
    values: dict[str, tuple[str, str]] = {}
    for path in _files(conf):
        sections: dict[str, dict[str, list[str]]] = {}
        with contextlib.suppress(*unreadable):
            cfg.ConfigParser(path, sections).parse()
        for section, options in sections.items():
            if group in (section, section.lower()):
                for name, texts in options.items():
                    values[name.replace("-", "_")] = texts[-1].strip(), path
    return values


def read_values(conf: cfg.ConfigOpts, group: str) -> dict[str, str]:
    """Return what the files say in a group, by name; raise if one can't be read."""
    return {name: value for name, (value, _) in read_group(conf, group, ()).items()}


def check(conf: cfg.ConfigOpts, group: str, known: Collection[str]) -> list[str]:
    """Warnings about the options in a group that are not read.

    :param known: the names of all options, deprecated ones too.
    :raises InvalidConfiguration: one looks like an option that says which nodes are this
        service's.
    """
    warnings = []
    for name, (_, path) in read_group(conf, group).items():
        if name in known:
            continue
        alike = {*known, *DECISIVE} if group == "ironic" else known
        near = difflib.get_close_matches(name.lower(), alike, n=1, cutoff=_ALIKE)
        if near and near[0] in DECISIVE:
            raise exceptions.InvalidConfiguration(
                f"[{group}] {name}",
                f"is not an option; did you mean {near[0]}? It decides which nodes are this "
                f"service's, so the service does not start. It is in {path}",
            )
        hint = f"; did you mean {near[0]}?" if near else ""
        warnings.append(f"[{group}] {name} in {path}: unknown option, ignored{hint}")
    return warnings


def check_same(conf: cfg.ConfigOpts, group: str, name: str, other: str) -> None:
    """Check that two names of one option have the same value if both are set.

    :raises InvalidConfiguration: they don't.
    """
    values = read_group(conf, group)
    if name in values and other in values and values[name][0] != values[other][0]:
        raise exceptions.InvalidConfiguration(
            f"[{group}] {name}",
            f"is {values[name][0]!r}, but {other} is {values[other][0]!r}: they are the same "
            "option; set one of them",
        )


def names(options: Iterable[cfg.Opt]) -> set[str]:
    """The names of the options, with their former names."""
    aliases: set[str] = set()
    for option in options:
        also = (old.name for old in option.deprecated_opts if old.name)
        aliases.update(name.replace("-", "_") for name in (option.dest, option.name, *also))
    return aliases


def _files(conf: cfg.ConfigOpts) -> Iterator[str]:
    """The files in the order in which they were read; a later one overrides."""
    yield from _listed(conf, "config_file")
    for directory in _listed(conf, "config_dir"):
        yield from sorted(map(str, Path(directory).glob("*.conf")))


def _listed(conf: cfg.ConfigOpts, name: str) -> list[str]:
    if name not in conf:
        # No file was ever read.
        return []
    value = conf[name]
    return [value] if isinstance(value, str) else [path for path in value or () if path]
