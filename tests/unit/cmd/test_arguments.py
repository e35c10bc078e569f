# SPDX-License-Identifier: Apache-2.0

"""Which arguments are taken for what."""

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from ironic_virt.cmd import arguments
from ironic_virt.compute.networks import Network


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (arguments.count, "0", 0),
        (arguments.count, "2147483647", 2**31 - 1),
        (arguments.positive, "1", 1),
        (arguments.seconds, "0.5", 0.5),
        (arguments.name, "a name", "a name"),
        (arguments.network, "address=192.0.2.10/24", Network("192.0.2.10/24")),
        (
            arguments.network,
            "address=2001:db8::a/64,gateway=2001:db8::1,dns=2001:db8::2,dns=192.0.2.53",
            Network("2001:db8::a/64", "2001:db8::1", ("2001:db8::2", "192.0.2.53")),
        ),
    ],
)
def test_what_is_right_is_taken(kind: Callable[[str], Any], text: str, value: object) -> None:
    assert kind(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((arguments.count, n) for n in ("-1", "", "1.0", "x", "2147483648", "٣", "9" * 5000)),
        (arguments.positive, "0"),
        *((arguments.seconds, text) for text in ("0", "-1", "nan", "inf", "soon")),
        *((arguments.name, text) for text in ("", " ", "a\nb", "x" * 256)),
        *((arguments.network, f"address={text}") for text in ("", "192.0.2.10", "192.0.2.300/24")),
        *((arguments.network, text) for text in ("gateway=::1", "address=::2/64,address=::3/64")),
        *((arguments.network, f"address=::2/64,{text}") for text in ("dns=x", "gateway=x", "x=5")),
    ],
)
def test_what_is_wrong_is_not(kind: Callable[[str], Any], text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        kind(text)


def test_keys_and_values_add_up_and_the_last_counts() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--property", action=arguments.KeyValue, default={})
    for _ in range(2):  # what one run was given is not the next one's default
        asked = ["--property", "a=1", "--property", "b=x=y", "--property", "a=", "--property"]
        assert parser.parse_args([*asked, "c=3"]).property == {"a": "", "b": "x=y", "c": "3"}
        assert parser.parse_args([]).property == {}


def test_help_fits_into_a_terminal_and_leaves_commands_whole(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    parser = argparse.ArgumentParser(
        prog="one",
        description="A first sentence that is longer\nthan such a line.\n\nA second one.\n",
        epilog="Examples:\n  ironic-virt server create --flavor gold --wait web\n"
        "  ironic-virt-fake-ironic \\\n      --nodes 20\n      twenty nodes\n\nExit codes: "
        "0 it is done; 1 it is not; 2 wrong arguments\n",
        formatter_class=arguments.Help,
        add_help=False,
    )
    assert parser.format_help() == (
        "usage: one\n\nA first sentence that is longer than\nsuch a line.\n\nA second one.\n\n"
        "Examples:\n  ironic-virt server create --flavor gold --wait web\n"
        "  ironic-virt-fake-ironic \\\n      --nodes 20\n      twenty nodes\n\n"
        "Exit codes: 0 it is done; 1 it is not;\n2 wrong arguments\n"
    )
