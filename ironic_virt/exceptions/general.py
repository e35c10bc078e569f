# SPDX-License-Identifier: Apache-2.0

"""The root of the tree; errors of options, of loading and of scheduling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

# oslo.config names the place of a value by a repr; of it, people need the file.
_LOCATION = re.compile(r"LocationInfo\(location=.*?, detail='(.*?)'\)")


class IronicVirtError(Exception):
    """The root of every error that this package raises on purpose."""


def copy_of(error: Exception) -> Exception:
    """A copy of an error that several callers get, so that each adds notes to its own."""
    twin = type(error).__new__(type(error))
    twin.args = error.args
    twin.__dict__.update(error.__dict__)
    if hasattr(error, "__notes__"):
        twin.__notes__ = [*error.__notes__]
    twin.__cause__ = error.__cause__
    # In a traceback the copy replaces the first one, and is not shown as its consequence.
    return twin.with_traceback(error.__traceback__)


class InvalidConfiguration(IronicVirtError):
    """An option has a value that can't be used.

    :param option: the option as an operator writes it, ``[ironic] shard_key``.
    :param reason: what is wrong with the value, in one sentence.
    """

    def __init__(self, option: str, reason: str) -> None:
        self.option = option
        self.reason = _LOCATION.sub(r"\1", reason)
        super().__init__(f"Invalid configuration: {option}: {self.reason}")


class ExtrasMissing(IronicVirtError):
    """A package is needed that comes with an extra, and isn't installed.

    :param missing: the package.
    :param extra: of ``ironic-virt``.
    """

    def __init__(self, missing: str | None, extra: str) -> None:
        self.missing = missing
        self.extra = extra
        super().__init__(
            f"The package {missing!r} is needed for this and is not installed. It comes with "
            f"ironic-virt's extra {extra!r}: pip install '.[{extra}]' in a checkout"
        )


class OperationNotSupported(IronicVirtError):
    """This driver can't do the operation in any state of the node."""

    def __init__(self, operation: str, reason: str = "") -> None:
        self.operation = operation
        self.reason = reason
        super().__init__(
            f"The driver does not support {operation}" + (f": {reason}" if reason else "")
        )


class LeaseLost(IronicVirtError):
    """This process may change nothing: it does not hold the lease of its host name.

    :param reason: why, in a few words.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Nothing is changed without the lease of this host name: {reason}")


class StandbyBackendFailed(IronicVirtError):
    """The backend of the lease gave no answer, or none that says who holds it."""


class InvalidExtraSpec(IronicVirtError):
    """A flavor or an image asks for something in a form that can't be read."""

    def __init__(self, whose: str, key: str, value: str, expected: str) -> None:
        self.whose = whose
        self.key = key
        self.value = value
        self.expected = expected
        super().__init__(f"{whose}: the value of {key} must be {expected}, not {value!r}")


class NoValidHost(IronicVirtError):
    """No compute node was left for a request.

    :param instance: the instance's uuid, if it has one.
    :param known: how many compute nodes there are.
    :param free: how many of them were free and of a service that is up.
    :param left: filter by filter in the order in which they were run: its name,
        what it wanted, how many nodes it left.
    :param examples: by filter's name why it rejected one node, for those that
        rejected any by looking at it, or the one that left none.
    :param wanted: how many instances were asked for.
    :param found: for how many of them there was a node.
    :param obstacles: what keeps nodes that would do from being free, in words.
    :param cleaning: how many of them Ironic cleans now, so that they may soon be free.
    """

    def __init__(
        self,
        instance: str | None,
        flavor: str,
        *,
        known: int,
        free: int,
        left: Iterable[tuple[str, str, int]] = (),
        examples: Mapping[str, str] | None = None,
        wanted: int = 1,
        found: int = 0,
        obstacles: Iterable[str] = (),
        cleaning: int = 0,
    ) -> None:
        self.instance = instance
        self.flavor = flavor
        self.known = known
        self.free = free
        self.left = tuple(left)
        self.examples = dict(examples or {})
        self.wanted = wanted
        self.found = found
        self.obstacles = tuple(obstacles)
        self.cleaning = cleaning
        whose = f" for server {instance}" if instance else ""
        flavor_text = f" (flavor {flavor})" if flavor else ""
        some = f"; a node was found for {found} of {wanted} servers" if found else ""
        why = "; ".join([self._reason(), *self.obstacles])
        super().__init__(f"No valid host{whose}{flavor_text}: {why}{some}")

    def replace(self, **changes: Any) -> NoValidHost:
        """Return the error with other arguments, such as another instance of the request."""
        return NoValidHost(**(vars(self) | changes))

    def _reason(self) -> str:
        if not self.known:
            return "there are no compute nodes (is a compute service running?)"
        nodes = f"{self.known} node" + ("s" if self.known != 1 else "")
        if not self.free:
            return (
                f"none of {nodes} is free"
                if self.obstacles
                else (f"none of {nodes} is free and has a compute service that is up")
            )
        steps, before = [f"{self.free} of {nodes} free"], self.free
        for name, wish, remaining in self.left:
            if remaining == before:
                continue
            before = remaining
            steps.append(f"{name}{f' ({wish})' if wish else ''} left {remaining}")
            if not remaining:
                if name in self.examples:
                    steps[-1] += f", for example {self.examples[name]}"
                break
        return "; ".join(steps)
