# SPDX-License-Identifier: Apache-2.0

"""The metrics as Prometheus gets them over HTTP, and all that is made for them.

Each query of the dashboard and of the alerts must find series in what a driver really shows
after a day on which everything happened.
"""

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import prometheus_client
import pytest
import requests
from prometheus_client import parser

from ironic_virt import conf
from ironic_virt.metrics import page
from tests import shown_metrics
from tests.ports import reserved_port

ROOT = Path(__file__).parents[2]

Series = Mapping[str, str]
"""The labels of one, its name as ``__name__``."""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the page shows after that."""
    with shown_metrics.shown(tmp_path_factory.mktemp("metrics")) as url:
        answer = requests.get(f"{url}/metrics", timeout=30)
        assert requests.get(f"{url}/healthz", timeout=30).status_code == 404
    assert answer.status_code == 200
    return answer.text


@pytest.fixture(scope="module")
def series(text: str) -> list[Series]:
    """All that Prometheus has of it, with the labels that it adds."""
    told = {"job": "ironic-virt", "instance": "compute1:9101"}
    return [
        {"__name__": "up", **told},
        *(
            {"__name__": sample.name, **sample.labels, **told}
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
        ),
    ]


# -- queries --------------------------------------------------------------------------------


class Selector(NamedTuple):
    """What a query looks for: the metric's name, and what is said of its labels."""

    name: str
    matchers: tuple[tuple[str, str, str], ...]

    def finds(self, one: Series) -> bool:
        return one["__name__"] == self.name and all(
            (re.fullmatch(wanted, one.get(label, "")) is not None) == (how in ("=~", "="))
            for label, how, wanted in self.matchers
        )


_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right) *\(([^)]*)\)")
_MATCHER = re.compile(r'(\w+) *(=~|!~|!=|=) *"([^"]*)"')
_WORDS = {"and", "or", "unless", "bool"}


def taken_apart(query: str) -> tuple[list[Selector], set[str]]:
    """The selectors of a query, and the labels that it groups by."""
    grouping = {
        label.strip() for found in _GROUPING.findall(query) for label in found.split(",") if label
    }
    rest = re.sub(r"\[\w+\]", "", _GROUPING.sub("", query))
    selectors = [
        Selector(name, tuple(_MATCHER.findall(matchers or "")))
        for name, matchers in re.findall(r"\b([a-z_]\w*)\b(?! *\()({[^}]*})?", rest)
        if name not in _WORDS
    ]
    return selectors, grouping


@pytest.mark.parametrize(("where", "query"), list(shown_metrics.queries()))
def test_a_query_finds_what_a_driver_shows(where: str, query: str, series: list[Series]) -> None:
    selectors, grouping = taken_apart(query)
    assert selectors
    labels: set[str] = set()
    for selector in selectors:
        found = [one for one in series if selector.finds(one)]
        assert found, f"{where}: nothing is found by {selector}"
        labels.update(*found)
    assert grouping <= labels, where


def test_a_query_is_taken_apart() -> None:
    selectors, grouping = taken_apart(
        'sum by (le, kind) (rate(a_total{x=~"b|c", instance=~".*"}[5m]))'
        " / on (job) group_left (host) e unless up > 0"
    )
    assert grouping == {"le", "kind", "job", "host"}
    assert [one.name for one in selectors] == ["a_total", "e", "up"]
    assert selectors[0].matchers == (("x", "=~", "b|c"), ("instance", "=~", ".*"))
    assert selectors[0].finds({"__name__": "a_total", "x": "c"})
    assert not selectors[0].finds({"__name__": "a_total", "x": "d"})


def test_alerts_name_only_labels_that_are_there(series: list[Series]) -> None:
    for rule in shown_metrics.rules():
        selectors, _ = taken_apart(rule["expr"])
        labels = {label for one in series if selectors[0].finds(one) for label in one}
        named = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        assert set(named) <= labels, rule["alert"]


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
    shown: dict[str, set[str]] = {}
    for family in parser.text_string_to_metric_families(text):
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        if not name.startswith("process_") and not name.endswith("_created"):
            for sample in family.samples:
                shown.setdefault(name, set()).update(sample.labels.keys() - {"le"})
    text_of_page = (ROOT / "doc/source/admin/metrics.rst").read_text()
    documented = {
        name: set(labels.split(",")) if labels else set()
        for name, labels in re.findall(
            r"^   \* - ``(ironic_virt_\w+)(?:{([\w,]+)})?``", text_of_page, re.MULTILINE
        )
    }
    assert documented == shown
