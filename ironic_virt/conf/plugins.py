# SPDX-License-Identifier: Apache-2.0

"""What options name by entry points: the driver, hooks, filters and weighers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

from oslo_config import cfg
from stevedore import named

from ironic_virt import exceptions

Part = TypeVar("Part")


def load(
    namespace: str,
    names: Sequence[str],
    kind: type[Part],
    conf: cfg.ConfigOpts,
    option: str,
    *more: object,
) -> dict[str, Part]:
    """One object for each name, by name and in the order of the names.

    :param kind: what the objects must be; they are made with ``conf`` and ``more``.
    :param option: where an operator wrote the names, for the error.
    :raises InvalidConfiguration: a name that isn't installed (the names that are
        get listed), that several packages bring, or that can't be loaded.
    """
    if len(set(names)) != len(names):
        raise exceptions.InvalidConfiguration(option, "a name stands there twice")

    def failed(_manager: Any, entry_point: Any, error: BaseException) -> NoReturn:
        if isinstance(error, exceptions.IronicVirtError):
            raise error
        raise exceptions.InvalidConfiguration(
            option, f"{entry_point.name} could not be loaded: {error!r}"
        ) from error

    try:
        manager: named.NamedExtensionManager[Any] = named.NamedExtensionManager(
            namespace,
            list(names),
            invoke_on_load=True,
            invoke_args=(conf, *more),
            on_load_failure_callback=failed,
            on_missing_entrypoints_callback=None,
        )
    except AssertionError as exc:
        # The one error that stevedore does not hand to the callback.
        raise exceptions.InvalidConfiguration(option, repr(exc)) from exc
    by_name: dict[str, Part] = {}
    for extension in manager:
        if extension.name in by_name:
            raise exceptions.InvalidConfiguration(
                option, f"several installed packages bring {extension.name}"
            )
        if not isinstance(extension.obj, kind):
            raise exceptions.InvalidConfiguration(
                option, f"{extension.name} is no {kind.__module__}.{kind.__qualname__}"
            )
        by_name[extension.name] = extension.obj
    missing = [name for name in names if name not in by_name]
    if missing:
        installed = ", ".join(sorted(set(manager.entry_points_names()))) or "none"
        raise exceptions.InvalidConfiguration(
            option, f"{', '.join(missing)} is not installed; there are: {installed}"
        )
    return {name: by_name[name] for name in names}
