# SPDX-License-Identifier: Apache-2.0

"""What a node's history says of a step that has failed, added to the error as a note.

Asked only after a failure: what succeeds costs nothing.  An error is never replaced:
where the history can't be read, or says nothing of the step, no note is added.  Only where
Ironic has erased a deployment's ``last_error``, the history is asked for the reason itself.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.baremetal import states
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.history import ERROR, NodeEvent
from ironic_virt.baremetal.node import Node

LOG = logging.getLogger(__name__)

_LOOKED_AT = 20
"""Among how many of a node's last events the one of the step is looked for."""
_LONGEST = 300
"""Characters of an event that are shown; the error itself comes before it."""
_OTHERS = ("_end", states.AVAILABLE)
_CLEAN_UP = datetime.timedelta(minutes=15)
"""How long Ironic may take from the event of a failed deployment to the failed state."""


@contextlib.contextmanager
def explained_errors(client: IronicClient) -> Iterator[None]:
    """Explain what is raised in the block."""
    try:
        yield
    except exceptions.NodeError as error:
        explain_error(client, error)
        raise


def explain_error(client: IronicClient, error: exceptions.NodeError) -> None:
    """Add to an error what the node's history has of the step that failed.

    :param error: one with the node's ``last_error``, or a wait that ended too early.
    """
    last_error: str | None = getattr(error, "last_error", None)
    timed_out = any(isinstance(each, exceptions.WaitTimeout) for each in (error, error.__cause__))
    if not error.node or not (last_error or timed_out):
        # Nothing was done, so the history knows no more than the error.
        return
    try:
        # Whoever waits for the error need not wait for this, too.
        client_once = client.single_try()
        events = client_once.history.newest(error.node, _LOOKED_AT)
        if last_error:
            errors = (event for event in events if event.severity == ERROR)
            event = next((event for event in errors if event.event == last_error), None)
        else:
            event = newest_since(events, client_once.get_node(error.node).provision_updated_at)
    except exceptions.IronicError as exc:
        LOG.debug("The history of node %s can't be read: %s", error.node, exc)
        return
    if event is not None:
        error.add_note(in_words(event, said=error.reason))


def with_reason(client: IronicClient, node: Node) -> Node:
    """A node whose deployment failed, with ``last_error`` from the history if that is erased.

    Ironic 39.0.0 writes the reason down, then cleans up after the deploy ramdisk.  Where that
    powers the node off, as boot interface ``redfish-virtual-media`` does, it erases
    ``last_error``.  The history still has it.
    """
    if not node.has_lost_reason:
        return node
    try:
        events = client.single_try().history.newest(node.uuid, _LOOKED_AT)
    except exceptions.IronicError as exc:
        LOG.debug("The history of node %s can't be read: %s", node.uuid, exc)
        return node
    event = before_clean_up(events, node.provision_updated_at)
    return node if event is None else msgspec.structs.replace(node, last_error=event.event)


def before_clean_up(events: Sequence[NodeEvent], failed_at: str | None) -> NodeEvent | None:
    """The event with the reason of a deployment that has ended in a failed state.

    :param events: the newest first.
    :param failed_at: when that state was entered, in ISO 8601.
    """
    failed = read_time(failed_at)
    for event in events:
        written = read_time(event.created_at)
        if failed is None or written is None or written < failed - _CLEAN_UP:
            return None
        # The end of the steps says nothing of the reason, nor does a VIF's failure before them.
        if event.severity == ERROR and not (event.event_type or "").endswith(_OTHERS):
            return event
    return None


def newest_since(events: Sequence[NodeEvent], since: str | None) -> NodeEvent | None:
    """The newest event, if it isn't older than a time; ``None`` also if that is not known.

    :param since: in ISO 8601, as Ironic writes it.
    """
    began, written = read_time(since), read_time(events[0].created_at if events else None)
    if began is None or written is None or written < began.replace(microsecond=0):
        return None
    return events[0]


def in_words(event: NodeEvent, said: str = "") -> str:
    """An event for people: in one line, and bounded.

    :param said: what they read before it; an event's text is not said a second time.
    """
    parts = (
        event.severity,
        event.event_type,
        event.conductor and f"by {event.conductor}",
        event.created_at and f"at {event.created_at}",
    )
    origin = ", ".join(part for part in parts if part)
    text = event.event or ""
    if text in said:
        return f"Ironic's history of the node: {origin}"
    return f"Ironic's history of the node: {logs.one_line(text, _LONGEST)} ({origin})"


def read_time(text: str | None) -> datetime.datetime | None:
    try:
        time = datetime.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
