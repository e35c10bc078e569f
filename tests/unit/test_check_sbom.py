# SPDX-License-Identifier: Apache-2.0

"""``make dist-check`` refuses a bill of materials that is not that of the wheel."""

from __future__ import annotations

import copy
import pathlib
import runpy
import types
from typing import Any

import pytest

check_sbom = types.SimpleNamespace(
    **runpy.run_path(str(pathlib.Path(__file__).parents[2] / ".ci" / "check_sbom.py"))
)

INSTALLED = {"ironic-virt": "0.1.0", "oslo-config": "10.0.0", "netaddr": "1.3.0"}
BILL = {
    "components": [
        {"name": "ironic-virt", "version": "0.1.0"},
        {"name": "oslo.config", "version": "10.0.0"},
        {"name": "netaddr", "version": "1.3.0"},
    ],
}


def complaints(bill: Any, **installed: str) -> list[str]:
    return check_sbom.complaints(bill, INSTALLED | installed, {"oslo-config"})


def test_a_bill_of_all_that_is_installed_in_these_versions_is_good() -> None:
    assert complaints(BILL) == []
    assert complaints(BILL, netaddr="1.4.0") == [
        "netaddr 1.4.0 is installed, and the bill says 1.3.0"
    ]


@pytest.mark.parametrize("name", ["ironic-virt", "oslo.config", "netaddr"])
def test_what_is_left_out_is_named(name: str) -> None:
    bill = copy.deepcopy(BILL)
    bill["components"] = [one for one in BILL["components"] if one["name"] != name]
    assert any(name.replace(".", "-") in line for line in complaints(bill))


def test_what_did_not_come_with_the_package_is_named_and_so_is_a_path_of_the_machine() -> None:
    bill = copy.deepcopy(BILL)
    bill["components"].append({"name": "pip", "version": "26.0"})
    assert complaints(bill) == ["pip is listed, and not installed"]
    bill = copy.deepcopy(BILL)
    bill["components"][0]["externalReferences"] = [{"url": "file:///home/me/dist/a.whl"}]
    assert complaints(bill) == ["it has a path of the machine on which it was made"]


def test_a_dependency_is_missing_even_if_it_is_not_installed() -> None:
    found = check_sbom.complaints(BILL, INSTALLED, {"oslo-config", "cliff"})
    assert found == ["cliff is missing"]


def test_what_belongs_to_an_extra_is_not_the_cores() -> None:
    lines = [
        "oslo.config>=9.3.0",
        'tooz>=1.58.0; extra == "hashring"',
        "Typing_Extensions; python_version < '3.12'",
    ]
    assert check_sbom.core(lines) == {"oslo-config", "typing-extensions"}
