# SPDX-License-Identifier: Apache-2.0

"""The metrics as Prometheus gets them over HTTP, and all that is made for them.

Each query of the dashboard and of the alerts must be of what a driver really shows after a day
on which everything happened.
"""

import re
import socket
from pathlib import Path

import prometheus_client
import pytest
import requests
from prometheus_client import parser

from ironic_virt import conf
from ironic_virt.metrics import page
from tests import shown_metrics
from tests.ports import reserved_port

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the page shows after that."""
    with shown_metrics.shown(tmp_path_factory.mktemp("metrics")) as url:
        answer = requests.get(f"{url}/metrics", timeout=30)
        assert requests.get(f"{url}/healthz", timeout=30).status_code == 404
    assert answer.status_code == 200
    return answer.text


@pytest.fixture(scope="module")
def shown(text: str) -> dict[str, set[str]]:
    """The labels of each metric in it, with those that Prometheus adds."""
    found = {"up": {"job", "instance"}}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {"job", "instance"}).update(sample.labels)
    return found


# -- queries: that each finds something is seen in tests/integration/test_alerts.py -------------


_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right) *\(([^)]*)\)")


@pytest.mark.parametrize(("where", "query"), list(shown_metrics.queries()))
def test_a_query_names_what_a_driver_shows(where, query, shown) -> None:
    metrics = set(re.findall(r"\bironic_virt_\w+|\bup\b", query))
    assert metrics
    assert metrics <= shown.keys(), where
    labels = set(re.findall(r'(\w+) *(?:=~|!~|!=|=) *"', query))
    labels.update(*(re.findall(r"\w+", found) for found in _GROUPING.findall(query)))
    assert labels <= set().union(*(shown[name] for name in metrics)), where


def test_alerts_name_only_labels_that_are_there(shown) -> None:
    for rule in shown_metrics.rules():
        (metric, *_) = re.findall(r"\bironic_virt_\w+|\bup\b", rule["expr"])
        named = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        assert set(named) <= shown[metric], rule["alert"]


# -- the page itself --------------------------------------------------------------------------


def test_no_name_is_looked_up_to_serve_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A DNS that does not answer must not keep a compute service from starting."""
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("DNS was asked"))
    registry = prometheus_client.CollectorRegistry()
    config = tmp_path / "compute1.conf"
    with reserved_port() as port:
        config.write_text(
            "[ironic]\nauth_type = none\nendpoint_override = http://localhost:6385\n"
            f"metrics_port = {port}\n"
        )
        with page.served(conf.load([str(config)]), page.application(registry)):
            assert requests.get(f"http://127.0.0.1:{port}/metrics", timeout=30).ok


# -- the page of documentation ----------------------------------------------------------------


def test_the_documentation_has_each_metric_and_its_labels(text: str) -> None:
    described: dict[str, set[str]] = {}
    for family in parser.text_string_to_metric_families(text):
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        if not name.startswith("process_") and not name.endswith("_created"):
            for sample in family.samples:
                described.setdefault(name, set()).update(sample.labels.keys() - {"le"})
    text_of_page = (ROOT / "doc/source/admin/metrics.rst").read_text()
    documented = {
        name: set(labels.split(",")) if labels else set()
        for name, labels in re.findall(
            r"^   \* - ``(ironic_virt_\w+)(?:{([\w,]+)})?``", text_of_page, re.MULTILINE
        )
    }
    assert documented == described
