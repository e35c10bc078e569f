# SPDX-License-Identifier: Apache-2.0

"""What commands show is a server, as in ``openstack``; instance is Nova's word, and Ironic's.

An error of the driver's is shown as a server's fault.  Log lines may say instance, and so may
options, which are Nova's too.
"""

import ast
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "ironic_virt"
ROOMS = ("baremetal", "cmd", "compute", "driver", "exceptions", "scheduler", "sharding")
INSTANCE = re.compile(r"\binstances?\b", re.IGNORECASE)
# A column and a feature that Ironic calls so; a log line that is put together.
THEIRS = ("Instance UUID", "the name of a node's instance", "Instance %s: %s is tried again")


def sentences(source: str) -> Iterator[str]:
    """The texts of a module that are neither documentation nor a log line's."""
    tree = ast.parse(source)
    silent = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                silent.add(id(node.value))
            case ast.Call(func=ast.Attribute(value=ast.Name("LOG"))):
                silent |= {id(part) for part in ast.walk(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(str() as text) if id(node) not in silent:
                if " " in text or text[:1].isupper():
                    yield text


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_told_of_a_server_calls_it_so(room: str) -> None:
    modules = sorted((PACKAGE / room).rglob("*.py"))
    assert modules
    assert [
        f"{module.name}: {text}"
        for module in modules
        for text in sentences(module.read_text())
        if INSTANCE.search(re.sub("{[^}]*}", "", text)) and not text.startswith(THEIRS)
    ] == []


def test_the_help_calls_a_server_so() -> None:
    groups = ("ironic_virt.cli", "ironic_virt.manage_cli", "ironic_virt.fleet_cli")
    commands = [point for group in groups for point in metadata.entry_points(group=group)]
    assert len(commands) > 30
    assert [one.name for one in commands if INSTANCE.search(one.load().__doc__)] == []
