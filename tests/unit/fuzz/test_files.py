# SPDX-License-Identifier: Apache-2.0

"""A plan, and its journal, that somebody has edited or a disk has broken."""

import contextlib
import datetime
import hashlib
import json
from pathlib import Path

import yaml

from ironic_virt.fleet.plans import journal
from ironic_virt.fleet.plans import plan as plans
from ironic_virt.fleet.plans.plan import Assumed, Change, Plan, PlanRefused
from tests.unit.fuzz import malformed

BEFORE = ("s1", "a")
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
PLAN = Plan("move", NOW, {"b": Assumed("s2")}, [Change("n1", ("s1", "s2"), ("a", "b"), "server")])


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    plans.write(PLAN, path)
    # JSON is YAML.
    whole = yaml.safe_load(path.read_text())
    for example in malformed.examples("plan"):
        with example, contextlib.suppress(PlanRefused):
            path.write_bytes(example.document(whole))
            found = plans.read(path, edited=True)
            before = {change.node: (change.shard[0], change.host[0]) for change in found.changes}
            assert len(found.undone(before).moved) == len(found.moved)


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("plan")
    lines = [
        {"plan": hashlib.sha256(b"plan").hexdigest()},
        {"node": "n1", "state": journal.BEGUN, "at": NOW.isoformat(), "before": BEFORE},
        {"node": "n1", "state": journal.DONE, "at": NOW.isoformat(), "before": BEFORE},
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
                    opened.write({"n1": BEFORE}, journal.UNDOING)
                    touched = opened.touched()
                    assert "n1" in touched
            except PlanRefused:
                continue
            # What a run has added can be read again.
            with journal.opened(plan) as again:
                assert again.touched() == touched
