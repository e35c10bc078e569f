# SPDX-License-Identifier: Apache-2.0

"""A request whose reply is lost may have been applied: look before sending it again.

Every call that changes something goes through the same stories here.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer
from tests.unit.baremetal import scripted
from tests.unit.baremetal.scripted import (
    INSTANCE,
    NODE,
    VIF,
    ScriptedChannel,
    answer,
    client_of,
    fault,
    locked,
    lost,
    node_answer,
)

PATCH = [{"op": "add", "path": "/instance_uuid", "value": INSTANCE}]


@dataclasses.dataclass(frozen=True)
class Change:
    """A call that changes something, and what Ironic says before and after it."""

    call: Callable[[IronicClient], Any]
    request: str
    before: Answer
    after: Answer
    refused_because_done: Answer
    look: str = f"GET /nodes/{NODE}"
    done: Answer = dataclasses.field(default_factory=lambda: answer(204))
    node: str | None = NODE
    no_look: Answer = dataclasses.field(default_factory=scripted.no_such_node)


ALLOCATION = answer(200, {"uuid": INSTANCE, "state": "allocating"})
TARGET_ID = "0a8d2c4e-0000-4000-8000-000000000001"
TARGET = answer(200, {"uuid": TARGET_ID})
GIVEN: dict[str, Any] = {"volume_type": "iscsi", "volume_id": "v1", "boot_index": 0}
NO_PAGE = answer(404, b"<html>no such page</html>")
NO_ALLOCATION = fault(404, f"Allocation {INSTANCE} could not be found.")
NO_TARGET = fault(404, f"Volume target {TARGET_ID} could not be found.")


def _vifs(*ids: str) -> Answer:
    return answer(200, {"vifs": [{"id": vif} for vif in ids]})


CHANGES = {
    "patch_node": Change(
        call=lambda client: client.patch_node(NODE, PATCH),
        request=f"PATCH /nodes/{NODE}",
        done=node_answer(instance_uuid=INSTANCE),
        before=node_answer(),
        after=node_answer(instance_uuid=INSTANCE),
        refused_because_done=fault(409, f"Node {NODE} is associated with instance {INSTANCE}."),
    ),
    "set_provision_state": Change(
        call=lambda client: client.set_provision_state(
            NODE, "active", applied=lambda node: node.provision_state == "deploying"
        ),
        request=f"PUT /nodes/{NODE}/states/provision",
        done=answer(202),
        before=node_answer(),
        after=node_answer(provision_state="deploying", target_provision_state="active"),
        refused_because_done=fault(
            400,
            'The requested action "active" can not be performed on node '
            f'"{NODE}" while it is in state "deploying".',
        ),
    ),
    "set_power_state": Change(
        call=lambda client: client.set_power_state(
            NODE, "power on", applied=lambda node: node.target_power_state == "power on"
        ),
        request=f"PUT /nodes/{NODE}/states/power",
        done=answer(202),
        before=node_answer(),
        after=node_answer(target_power_state="power on"),
        refused_because_done=fault(400, "Already on its way."),
    ),
    "attach_vif": Change(
        call=lambda client: client.ports.attach(NODE, VIF),
        request=f"POST /nodes/{NODE}/vifs",
        look=f"GET /nodes/{NODE}/vifs",
        before=_vifs(),
        after=_vifs(VIF),
        refused_because_done=fault(
            409, f"Unable to attach VIF because VIF {VIF} is already attached to Ironic Port x"
        ),
    ),
    "detach_vif": Change(
        call=lambda client: client.ports.detach(NODE, VIF),
        request=f"DELETE /nodes/{NODE}/vifs/{VIF}",
        look=f"GET /nodes/{NODE}/vifs",
        before=_vifs(VIF),
        after=_vifs(),
        refused_because_done=fault(
            400,
            f"Unable to detach VIF {VIF} from node {NODE} because it is not attached to it.",
        ),
    ),
    "create_allocation": Change(
        call=lambda client: client.allocations.create(
            INSTANCE, resource_class="gold", candidate_nodes=[NODE]
        ),
        request="POST /allocations",
        look=f"GET /allocations/{INSTANCE}",
        done=ALLOCATION,
        before=NO_ALLOCATION,
        after=ALLOCATION,
        refused_because_done=fault(400, "The instance has a node."),
        node=None,
        no_look=NO_PAGE,
    ),
    "delete_allocation": Change(
        call=lambda client: client.allocations.delete(INSTANCE),
        request=f"DELETE /allocations/{INSTANCE}",
        look=f"GET /allocations/{INSTANCE}",
        before=ALLOCATION,
        after=NO_ALLOCATION,
        refused_because_done=fault(400, "There is none."),
        node=None,
        no_look=NO_PAGE,
    ),
    "create_target": Change(
        call=lambda client: client.volumes.create_target(
            NODE, **GIVEN, properties={}, extra={}, uuid=TARGET_ID
        ),
        request="POST /volume/targets",
        look=f"GET /volume/targets/{TARGET_ID}",
        done=TARGET,
        before=NO_TARGET,
        after=TARGET,
        refused_because_done=fault(409, f"A volume target with UUID {TARGET_ID} already exists."),
        no_look=NO_PAGE,
    ),
    "delete_target": Change(
        call=lambda client: client.volumes.delete_target(TARGET_ID, NODE),
        request=f"DELETE /volume/targets/{TARGET_ID}",
        look=f"GET /volume/targets/{TARGET_ID}",
        before=TARGET,
        after=NO_TARGET,
        refused_because_done=fault(400, "There is none."),
        no_look=NO_PAGE,
    ),
}

# Each request, and what it is answered by the names in answers_to().
SUCCEEDS = {
    "with a reply it is sent once": "change:done",
    "applied although no answer came it is not sent again": "change:lost look:after",
    "applied although a gateway was bad it is not sent again": "change:502 look:after",
    "applied although a gateway timed out it is not sent again": "change:504 look:after",
    "not applied it is sent again": "change:lost look:before change:done",
    "while looking fails it is not sent again": "change:lost look:lost look:503 look:after",
    # It may come in late: a node that our own lost request has locked.
    "it is looked for before each further try": "change:lost look:before change:locked look:after",
    "a failure that may pass is looked into once": (
        "change:lost look:before change:503 look:before change:done"
    ),
    "refused as it had come in late": "change:lost look:before change:refused look:after",
    "a locked node surely did nothing": "change:locked change:done",
    "a busy server surely did nothing": "change:busy change:done",
    "applied although a proxy has no server it is not sent again": "change:503 look:after",
    "applied although the conductor was slow it is not sent again": "change:slow look:after",
    "not applied by a slow conductor it is sent again": (
        "change:slow look:before change:slow look:before change:done"
    ),
    "a server that has crashed is asked again": "change:crashed look:before change:done",
    "a server that wants it slower surely did nothing": "change:429 change:done",
}
FAILS = {
    "looking never succeeds": (
        "change:lost look:503 look:503 look:lost",
        exceptions.IronicUnreachable,
    ),
    "a proxy sends a page with status 200": ("change:page", exceptions.UnexpectedAnswer),
    "looking finds a page": ("change:lost look:page", exceptions.UnexpectedAnswer),
    "looking is refused": ("change:lost look:gone", exceptions.NotFound),
    "lost and then refused for another reason": (
        "change:lost look:before change:maintenance look:before",
        exceptions.BadRequest,
    ),
    "refused without a loss, whatever the node looks like": (
        "change:refused",
        (exceptions.BadRequest, exceptions.Conflict),
    ),
    "without a scope nothing was done": ("change:scope", exceptions.IronicUnauthorized),
    "a lock that stays": (" ".join(["change:locked"] * 4), exceptions.NodeLocked),
}


def answers_to(change: Change) -> dict[str, Answer | exceptions.IronicError]:
    statuses = {str(status): fault(status, "sorry") for status in (429, 502, 503, 504)}
    return statuses | {
        "lost": lost(),
        "busy": scripted.too_busy(),
        "slow": scripted.conductor_slow(),
        "crashed": answer(500, b"<html><h1>Internal Server Error</h1></html>"),
        "scope": fault(
            500,
            "baremetal:node:update requires a scope of ['system'], request was made with project "
            "scope.",
        ),
        "broken": fault(500, "the image could not be read"),
        "locked": locked(),
        "page": answer(200, b"<html>please log in</html>"),
        "gone": change.no_look,
        "maintenance": fault(400, "the node is in maintenance"),
        "done": change.done,
        "before": change.before,
        "after": change.after,
        "refused": change.refused_because_done,
    }


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    ("story", "error"),
    [*((story, None) for story in SUCCEEDS.values()), *FAILS.values()],
    ids=[*SUCCEEDS, *FAILS],
)
def test_a_change_that_may_have_been_applied_is_looked_for(change, story, error) -> None:
    asked, answers = zip(*(one.split(":") for one in story.split()), strict=True)
    channel = ScriptedChannel(*(answers_to(change)[name] for name in answers))
    if error is exceptions.NodeLocked and change is CHANGES["create_allocation"]:
        # One that it already has would be refused by the same status.
        channel.script.append(NO_ALLOCATION)
        asked = (*asked, "look")
    if error is None:
        change.call(client_of(channel))
    else:
        with pytest.raises(error) as caught:
            change.call(client_of(channel))
        assert caught.value.node == change.node
    assert channel.lines == [change.request if one == "change" else change.look for one in asked]
    sent = [request for request in channel.requests if str(request) == change.request]
    assert all(request == sent[0] for request in sent), "unchanged"


@pytest.mark.parametrize(
    ("story", "error"),
    [
        ("change:broken look:after", None),
        ("change:broken look:503 look:after", None),
        ("change:broken look:before", "the image could not be read"),
    ],
)
@pytest.mark.parametrize("name", sorted(CHANGES.keys() - {"attach_vif"}))
def test_what_broke_off_is_looked_for_before_it_is_an_error(name, story, error) -> None:
    test_a_change_that_may_have_been_applied_is_looked_for(
        CHANGES[name], story, exceptions.IronicError if error else None
    )


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_after_the_last_try_a_lost_reply_is_looked_for_once(change: Change) -> None:
    for look, is_done in ((change.after, True), (change.before, False), (lost(), False)):
        channel = ScriptedChannel(lost(), change.before, lost(), look)
        if is_done:
            change.call(client_of(channel, retries=1))
        else:
            with pytest.raises(exceptions.IronicUnreachable) as caught:
                change.call(client_of(channel, retries=1))
            assert caught.value.node == change.node
        assert channel.lines == [change.request, change.look] * 2


def test_a_vif_that_could_not_be_attached_is_not_looked_for() -> None:
    """Ironic notes it before it tells Neutron."""
    channel = ScriptedChannel(lost(), _vifs(), fault(500, "Neutron is away"))
    with pytest.raises(exceptions.IronicError, match="Neutron is away"):
        client_of(channel).ports.attach(NODE, VIF)
    assert len(channel.requests) == 3


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_each_change_is_checked_before_a_further_try(change: Change) -> None:
    channel = ScriptedChannel(locked(), change.done)
    checked: list[str] = []
    change.call(client_of(channel).rechecking(lambda: checked.extend(channel.lines)))
    assert checked == [change.request]
    assert channel.lines == [change.request] * 2


def test_a_patch_found_applied_returns_the_whole_node_as_found() -> None:
    channel = ScriptedChannel(lost(), node_answer(instance_uuid=INSTANCE, name="found"))
    node = client_of(channel).patch_node(NODE, PATCH)
    assert (node.instance_uuid, node.name) == (INSTANCE, "found")
    # A field that was not asked for would look as if it were missing.
    assert "fields" not in channel.requests[1].params
