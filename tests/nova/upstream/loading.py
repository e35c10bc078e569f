# SPDX-License-Identifier: Apache-2.0

"""Second copies of Nova's test modules, for which our driver is Nova's."""

import contextlib
import importlib.util
import re
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import fixtures
from nova import conf as nova_conf
from nova.tests import fixtures as nova_fixtures
from nova.virt import ironic

from tests.nova import cases
from tests.nova.upstream import patcher, stand_in

CONF = nova_conf.CONF
MODULES = (
    "nova.tests.unit.virt.ironic.test_driver",
    "nova.tests.unit.virt.ironic.test_patcher",
)
_PACKAGE = "nova.virt.ironic"
_OURS = {"driver": stand_in.module(), "patcher": patcher}
_LEFT_CHANGED = (
    "api_max_retries",
    "api_retry_interval",
    "serial_console_state_timeout",
    "vnc_console_state_timeout",
)
"""Options of ``[ironic]`` that the tests give new defaults and leave so."""


@contextlib.contextmanager
def our_driver() -> Iterator[None]:
    """Let whoever asks for Nova's modules get ours, by import or by a dotted name."""
    names = {f"{_PACKAGE}.{name}": module for name, module in _OURS.items()}
    novas = {name: sys.modules[name] for name in names}
    # Not the whole of sys.modules is put back: what is imported meanwhile stays.
    sys.modules.update(names)
    try:
        with mock.patch.multiple(ironic, **_OURS):
            yield
    finally:
        sys.modules.update(novas)


def load(name: str) -> types.ModuleType:
    """Load a module of Nova's tests again; the ordinary one stays as it is.

    :param name: its full name.
    """
    spec = importlib.util.find_spec(name)
    assert spec is not None, name
    assert spec.loader is not None, name
    made = importlib.util.module_from_spec(spec)
    with our_driver():
        spec.loader.exec_module(made)
    return made


class OurDriver:
    """Comes before a class of Nova's tests among the bases of a test case."""

    def setUp(self) -> None:
        """Put our driver in the place of Nova's for as long as the test runs."""
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.callback(_put_options_back)
        stack.enter_context(our_driver())
        # No test here is about policies, and reading them takes most of the time.
        stack.enter_context(mock.patch.object(nova_fixtures, "PolicyFixture", fixtures.Fixture))
        super().setUp()


def _put_options_back() -> None:
    for name in _LEFT_CHANGED:
        CONF.clear_default(name, group="ironic")
    CONF.clear_override("default_ephemeral_format")


class Case(NamedTuple):
    """One of Nova's cases.

    :ivar owner: the class that defines it.
    :ivar name: of its method; for one of several made by ddt without the number, which
        is another one in each process.
    :ivar classes: the owner and those that inherit it, with the method.
    """

    owner: str
    name: str
    classes: tuple[tuple[type[unittest.TestCase], Callable[..., None]], ...]


_NUMBERED = re.compile(r"(test_destroy)_\d+_(\w+)")


def all_cases() -> list[Case]:
    """Nova's cases, with our driver."""
    found: dict[tuple[str, str], list[Any]] = {}
    for module in map(load, MODULES):
        for kind in vars(module).values():
            if not (isinstance(kind, type) and issubclass(kind, unittest.TestCase)):
                continue
            for name in unittest.defaultTestLoader.getTestCaseNames(kind):
                owner = next(base for base in kind.__mro__ if name in vars(base))
                stable = _NUMBERED.sub(r"\1_\2", name)
                found.setdefault((owner.__name__, stable), []).append((kind, getattr(kind, name)))
    return [Case(owner, name, tuple(classes)) for (owner, name), classes in found.items()]


def test_case(kind: type[unittest.TestCase], methods: dict[str, Callable[..., None]]) -> type:
    """A test case of a class of Nova's, with these of its methods only."""
    hidden = dict.fromkeys(unittest.defaultTestLoader.getTestCaseNames(kind))
    namespace = hidden | methods | {"__module__": __name__}
    return type(kind.__name__, (cases.UnderPytest, OurDriver, kind), namespace)
