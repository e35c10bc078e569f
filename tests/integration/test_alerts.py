# SPDX-License-Identifier: Apache-2.0

"""The alerts and the dashboard under the real Prometheus, where it is installed.

It is in Debian's package prometheus, with promtool; it need not run.
"""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests import shown_metrics
from tests.ports import reserved_port

CASES = Path(__file__).with_name("alerts.test.yaml")
PATIENCE = 60.0
"""Seconds after which a server that should have answered is given up."""

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None or shutil.which("prometheus") is None,
    reason="Prometheus is not installed",
)


def test_promtool_takes_the_rules_and_each_alert_fires() -> None:
    for arguments in (["check", "rules", str(shown_metrics.RULES)], ["test", "rules", str(CASES)]):
        result = subprocess.run(
            ["promtool", *arguments], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
    fired = set(re.findall(r'{alertname="(\w+)"', CASES.read_text()))
    assert fired == {rule["alert"] for rule in shown_metrics.rules()}


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[str]:
    """The URL of a Prometheus that has read what a driver shows, more than once."""
    with shown_metrics.shown(tmp_path) as target, reserved_port() as port:
        config = {
            "global": {"scrape_interval": "1s"},
            "rule_files": [str(shown_metrics.RULES)],
            "scrape_configs": [
                {
                    "job_name": "ironic-virt",
                    "static_configs": [{"targets": [target.removeprefix("http://")]}],
                }
            ],
        }
        file = tmp_path / "prometheus.yaml"
        file.write_text(json.dumps(config))
        program = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=(tmp_path / "prometheus.log").open("wb"),
        )
        url = f"http://127.0.0.1:{port}"
        try:
            until = time.monotonic() + PATIENCE
            while not found(url, "count_over_time(up[1m]) > 2 and up == 1"):
                assert program.poll() is None, (tmp_path / "prometheus.log").read_text()
                assert time.monotonic() < until, (tmp_path / "prometheus.log").read_text()
                time.sleep(0.2)
            yield url
        finally:
            program.kill()
            program.wait()


def found(url: str, query: str) -> list[Any]:
    """What a query finds; nothing as long as there is no Prometheus."""
    try:
        answer = requests.get(f"{url}/api/v1/query", {"query": query}, timeout=30)
    except requests.ConnectionError:
        return []
    if answer.status_code == 503:
        # It starts.
        return []
    told = answer.json()
    assert told["status"] == "success", told
    result: list[Any] = told["data"]["result"]
    return result


def test_each_panel_of_the_dashboard_shows_something(prometheus: str) -> None:
    alerts = {rule["alert"] for rule in shown_metrics.rules()}
    for where, query in shown_metrics.queries():
        series = found(prometheus, query)
        assert series or where in alerts, where
    firing = found(prometheus, shown_metrics.rules()[-1]["expr"])
    assert firing[0]["metric"]["state"] == "clean failed", "as the driver has seen it"
