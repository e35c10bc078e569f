# SPDX-License-Identifier: Apache-2.0

"""Options in a file that are not read: misspelt, or of another release.

oslo.config ignores them.  What is lost without a word may be the shard, and then a service
takes all nodes.  Only files are looked at.
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


def written(path: str, group: str) -> dict[str, str]:
    """What a file says in a group, by name; of several values the last.

    :raises OSError, ValueError, cfg.ParseError: it can't be read.
    """
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(path, sections).parse()
    return {
        name.replace("-", "_"): values[-1].strip()
        for section, options in sections.items()
        if group in (section, section.lower())
        for name, values in options.items()
    }


def written_in(conf: cfg.ConfigOpts, group: str) -> dict[str, str]:
    """What the files that were read say in a group, by name; values as they stand there.

    :raises OSError, ValueError, cfg.ParseError: one can't be read.
    """
    found: dict[str, str] = {}
    for path in _files(conf):
        found |= written(path, group)
    return found


def _written(conf: cfg.ConfigOpts, group: str) -> dict[str, tuple[str, str]]:
    """What the files that were read say in a group: by name the value, and the last file."""
    found: dict[str, tuple[str, str]] = {}
    for path in _files(conf):
        # It was there when the options were read, and may be being replaced.
        with contextlib.suppress(OSError, ValueError, cfg.ParseError):
            found |= {name: (value, path) for name, value in written(path, group).items()}
    return found


def check(conf: cfg.ConfigOpts, group: str, known: Collection[str]) -> list[str]:
    """Warnings about the options in a group that are not read.

    :param known: names that somebody reads, deprecated ones too.
    :raises InvalidConfiguration: one looks like an option that says which nodes are this
        service's.
    """
    warnings = []
    for name, (_, path) in _written(conf, group).items():
        if name in known:
            continue
        alike = {*known, *DECISIVE} if group == "ironic" else known
        near = difflib.get_close_matches(name.lower(), alike, n=1, cutoff=_ALIKE)
        if near and near[0] in DECISIVE:
            raise exceptions.InvalidConfiguration(
                f"[{group}] {name}",
                f"is no option; is {near[0]} meant? That decides which nodes are this service's, "
                f"so nothing is begun without it. It is in {path}",
            )
        hint = f"; is {near[0]} meant?" if near else ""
        warnings.append(f"[{group}] {name} in {path} is no option and has no effect{hint}")
    return warnings


def check_same(conf: cfg.ConfigOpts, group: str, name: str, other: str) -> None:
    """See that two names of one option say the same where both are written.

    :raises InvalidConfiguration: they don't.
    """
    found = _written(conf, group)
    if name in found and other in found and found[name][0] != found[other][0]:
        raise exceptions.InvalidConfiguration(
            f"[{group}] {name}",
            f"is {found[name][0]!r}, but {other} is {found[other][0]!r}: they are the same "
            "option; set one of them",
        )


def names(options: Iterable[cfg.Opt]) -> set[str]:
    """The names under which options may be written."""
    found: set[str] = set()
    for option in options:
        also = (old.name for old in option.deprecated_opts if old.name)
        found.update(name.replace("-", "_") for name in (option.dest, option.name, *also))
    return found


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
