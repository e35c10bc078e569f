# SPDX-License-Identifier: Apache-2.0

"""A plan, and its journal, that somebody has edited or a disk has broken."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
from pathlib import Path

import yaml

from ironic_virt.fleet.plans import journal
from ironic_virt.fleet.plans import plan as plans
from ironic_virt.fleet.plans.plan import Change, Plan, PlanRefused
from tests.unit.fuzz import malformed

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PLAN = Plan("add", NOW, {"b": "s2"}, [Change("n1", ("s1", "s2"), ("a", "b"), "server")])


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    plans.write(PLAN, path)
    # JSON is YAML.
    whole = yaml.safe_load(path.read_text())
    for example in malformed.examples("plan"):
        with example, contextlib.suppress(PlanRefused):
            path.write_bytes(example.document(whole))
            found = plans.read(path)
            assert found.steps() == found.undone().undone().steps()


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan")
    lines = [
        {"plan": hashlib.sha256(b"plan").hexdigest()},
        {"node": "n1", "state": journal.BEGUN, "at": NOW.isoformat()},
        {"node": "n1", "state": journal.DONE, "at": NOW.isoformat()},
    ]
    for example in malformed.examples("journal"):
        with example:
            written = [json.dumps(line).encode() for line in lines]
            index = example.randrange(len(lines))
            written[index] = example.document(lines[index])
            ends = example.pick([b"", b"\n"])
            journal.path_of(plan).write_bytes(b"\n".join(written) + ends)
            try:
                with journal.opened(plan) as opened:
                    opened.write(["n1"], journal.UNDOING)
                    assert "n1" in opened.touched()
            except PlanRefused:
                continue
            # What a run has added can be read again.
            with journal.opened(plan) as again:
                assert again.state("n1") == journal.UNDOING
