# SPDX-License-Identifier: Apache-2.0

"""Corrections look again, and change nothing if what was found is no longer so."""

import argparse
import contextlib
import dataclasses
from typing import Any
from unittest import mock

import pytest
from oslo_db import exception as db_exception
from sqlalchemy import exc as sa_exceptions

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.cmd.fleet_check import Check
from ironic_virt.cmd.fleet_unprotect import Unprotect
from ironic_virt.driver import resources
from ironic_virt.fleet import cells, checks, corrections, lock
from ironic_virt.fleet import placement as fleet_placement
from ironic_virt.fleet.deployment import Record, Server
from ironic_virt.fleet.findings import Finding, Severity
from ironic_virt.fleet.placement import PlacementClient
from tests.unit.fleet import deployments

NODE, SERVER = deployments.node_uuid(1), deployments.server_uuid(1)
ALIVE = Server("cell1", SERVER, "a", NODE, project_id="project", user_id="user")
GONE = dataclasses.replace(ALIVE, deleted=True)


@pytest.fixture
def placement() -> Any:
    client = mock.create_autospec(PlacementClient, instance=True)
    client.consumer_type.return_value = "INSTANCE"
    return client


@pytest.fixture
def ironic() -> Any:
    client = mock.create_autospec(IronicClient, instance=True)
    client.node_of_instance.return_value = deployments.node(1, instance_uuid=SERVER)
    return client


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """What Nova knows, by the function of :mod:`cells` that tells it, of the second cell."""
    told: dict[str, list[Any]] = {"servers": [ALIVE], "migrations": [], "being_built": []}
    told["records"] = [Record("cell2", 1, NODE, "a", NODE)]
    monkeypatch.setattr(cells, "cells", lambda: ["cell1", "cell2"])
    for name in ("servers", "migrations", "records"):
        monkeypatch.setattr(
            cells, name, lambda cell, uuids, name=name: told[name] if cell == "cell2" else []
        )
    monkeypatch.setattr(cells, "being_built", lambda uuids: told["being_built"])
    return told


def correct(code: str, placement: Any, ironic: Any, about: str = NODE, **facts: str) -> str:
    finding = Finding(code, Severity.ERROR, "", about, "", facts)
    return corrections.CORRECTIONS[code](finding, placement, ironic)


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        ({"servers": [ALIVE]}, "INSTANCE"),
        ({"migrations": [SERVER]}, "MIGRATION"),
        ({"being_built": [SERVER]}, "INSTANCE"),
        ({}, "CYBORG"),
    ],
    ids=["server", "migration", "being built", "somebody else's"],
)
def test_allocations_of_somebody_stay(placement, ironic, known, now, kind) -> None:
    known.update({"servers": [GONE], **now})
    placement.consumer_type.return_value = kind
    with pytest.raises(corrections.NoLongerSo):
        correct("allocation-of-nobody", placement, ironic, consumer=SERVER)
    placement.delete_allocations.assert_not_called()


@pytest.mark.parametrize(
    ("changes", "carrier", "record"),
    [
        ({"deleted": True}, deployments.node(1), NODE),
        ({"task_state": "deleting"}, deployments.node(1), NODE),
        ({"host": None}, deployments.node(1), NODE),
        ({}, None, NODE),
        ({}, deployments.node(2), NODE),
        # It was found in the pool, and another operator's ``pools leave`` has moved it since.
        ({}, deployments.node(1), "gold~a"),
    ],
    ids=["deleted", "being deleted", "no host", "no node", "another node", "another provider"],
)
def test_a_server_that_is_not_where_it_was_found_gets_none(
    placement, ironic, known, changes, carrier, record
) -> None:
    known["records"] = [Record("cell2", 1, NODE, "a", record)]
    known["servers"] = [dataclasses.replace(ALIVE, **changes)]
    ironic.node_of_instance.return_value = carrier
    with pytest.raises(corrections.NoLongerSo):
        correct("allocation-missing", placement, ironic, server=SERVER, provider=NODE)
    placement.allocate.assert_not_called()


def test_a_node_is_reserved_only_while_it_is_not_free(placement: Any, ironic: Any) -> None:
    facts = {"resource_class": deployments.GOLD, "provider": "provider"}
    ironic.get_node.return_value = deployments.node(1)
    with pytest.raises(corrections.NoLongerSo):
        correct("offered-unavailable", placement, ironic, **facts)
    placement.reserve.assert_not_called()
    ironic.get_node.return_value = deployments.node(1, provision_state="cleaning")
    correct("offered-unavailable", placement, ironic, **facts)
    placement.reserve.assert_called_once_with("provider", deployments.GOLD)


def test_many_findings_are_mended_by_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one would ask for a token, and Ironic for its versions."""
    finding = Finding("offered-unavailable", Severity.ERROR, "", NODE, "")
    ironic, placement = mock.Mock(), mock.Mock()
    monkeypatch.setattr(IronicClient, "from_conf", ironic)
    monkeypatch.setattr(fleet_placement, "PlacementClient", placement)
    # Another operator has the lock; then Ironic or Placement is away, and each try takes minutes.
    check = mock.Mock(side_effect=[*[None] * 4, *[lock.Locked("lost")] * 2, *[None] * 6])
    monkeypatch.setattr(lock, "held", lambda: contextlib.nullcontext(check))
    monkeypatch.setattr(checks, "run", lambda deployment, codes: [finding] * 3)
    gone = exceptions.IronicUnreachable("away"), fleet_placement.PlacementSilent("mute")
    tried = mock.Mock(side_effect=[*["mended"] * 4, *gone])
    monkeypatch.setitem(corrections.CORRECTIONS, finding.code, tried)
    known = {"read.return_value": deployments.fleet({"a": 1}), "leases.return_value": {}}
    monkeypatch.setattr(Check, "reader", lambda command, args: mock.Mock(**known))
    args = argparse.Namespace(fix=[finding.code], codes=[], apply=True)
    away, lost, mute = (f"not corrected: {why}" for why in ("Ironic: away", "lost", "mute"))
    rows = ["mended"] * 3, ["mended", lost, lost], [away] * 3, [mute] * 3
    for runs, expected in enumerate(rows, 1):
        command = Check(mock.Mock(), args)
        assert [outcome for *_, outcome in command.act(args)] == expected
        assert (command.code, ironic.call_count, placement.call_count) == (runs > 1, runs, runs)


def test_nodes_are_unprotected_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    check = mock.Mock(side_effect=[None, lock.Locked("another operator")])
    held = mock.Mock(side_effect=[lock.Locked("taken"), contextlib.nullcontext(check)])
    monkeypatch.setattr(lock, "held", held)
    ironic = mock.Mock(**{"return_value.get_node": lambda uuid: known.nodes[uuid]})
    monkeypatch.setattr(IronicClient, "from_conf", ironic)
    reason = {"protected": True, "protected_reason": resources.protection_of(SERVER)}
    known = deployments.fleet({"a": 3}, taken=4, instance_uuid=SERVER, **reason)
    monkeypatch.setattr(Unprotect, "reader", lambda *_: mock.Mock(**{"read.return_value": known}))
    args = argparse.Namespace(hosts=["a"], dry_run=False)
    unprotect = Unprotect(mock.Mock(**{"options.verbose_level": 0}), args)
    with pytest.raises(lock.Locked, match="taken"):
        unprotect.act(args)
    ironic.return_value.patch_node.assert_not_called()
    assert [row[4] for row in unprotect.act(args)] == ["done"]
    assert unprotect.code == ironic.return_value.patch_node.call_count == 1


def test_a_lock_whose_connection_was_lost_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is Nova's: it has oslo.db's errors instead of SQLAlchemy's."""
    engine = mock.MagicMock(**{"dialect.name": "mysql"})
    connection = engine.connect.return_value.__enter__.return_value
    execute = connection.execution_options.return_value.execute
    monkeypatch.setattr(lock.api, "get_engine", lambda: engine)
    for error in (db_exception.DBConnectionError(), sa_exceptions.OperationalError("", {}, None)):
        execute.side_effect = [mock.Mock(), error]
        with lock.held() as check, pytest.raises(lock.Locked, match="run the command again"):
            check()
