# SPDX-License-Identifier: Apache-2.0

"""``make dist-check`` refuses a bill of materials that is not that of the wheel."""

import pathlib
import runpy
import types
from typing import Any

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


def complaints(*rows: dict[str, Any], **installed: str) -> list[str]:
    return check_sbom.complaints({"components": rows}, INSTALLED | installed, {"oslo-config"})


def test_a_bill_names_what_is_installed_and_nothing_else() -> None:
    ours, *others = BILL["components"]
    assert complaints(ours, *others) == []
    for name in range(len(BILL["components"])):
        rows = [row for number, row in enumerate(BILL["components"]) if number != name]
        assert complaints(*rows), "one is left out"
    assert complaints(ours, *others, netaddr="1.4.0") == [
        "netaddr 1.4.0 is installed, and the bill says 1.3.0"
    ]
    pip = {"name": "pip", "version": "26.0"}
    assert complaints(ours, *others, pip) == ["pip is listed, and not installed"]
    path = ours | {"externalReferences": [{"url": "file:///home/me/dist/a.whl"}]}
    assert complaints(path, *others) == ["it has a path of the machine on which it was made"]
