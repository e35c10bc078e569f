# SPDX-License-Identifier: Apache-2.0

"""What a node's history says of a step that has failed, added to the error as a note.

Asked only after a failure: what succeeds costs nothing.  An error is never replaced:
where the history can't be read, or says nothing of the step, no note is added.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Sequence

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.history import ERROR, NodeEvent

LOG = logging.getLogger(__name__)

_LOOKED_AT = 20
"""Among how many of a node's last events the one of the step is looked for."""

_LONGEST = 300
"""Characters of an event that are shown; the error itself comes before it."""


@contextlib.contextmanager
def explained(client: IronicClient) -> Iterator[None]:
    """Explain what is raised in the block."""
    try:
        yield
    except exceptions.NodeError as error:
        explain(client, error)
        raise


def explain(client: IronicClient, error: exceptions.NodeError) -> None:
    """Add to an error what the node's history has of the step that failed.

    :param error: one with the node's ``last_error``, or a wait that ended too early.
    """
    said: str | None = getattr(error, "last_error", None)
    timed_out = any(isinstance(one, exceptions.WaitTimeout) for one in (error, error.__cause__))
    if not error.node or not (said or timed_out):
        # Nothing was done: the error has all that there is to say.
        return
    try:
        # Whoever waits for the error need not wait for this, too.
        asked = client.single_try()
        events = asked.history.newest(error.node, _LOOKED_AT)
        if said:
            event = event_of(events, said)
        else:
            event = newest_since(events, asked.get_node(error.node).provision_updated_at)
    except exceptions.IronicError as exc:
        LOG.debug("The history of node %s can't be read: %s", error.node, exc)
        return
    if event is not None:
        error.add_note(in_words(event, said=error.reason))


def event_of(events: Sequence[NodeEvent], said: str | None) -> NodeEvent | None:
    """The event that a node's ``last_error`` was written with.

    :param events: the newest first.
    """
    return next(
        (event for event in events if event.severity == ERROR and event.event == said), None
    )


def newest_since(events: Sequence[NodeEvent], since: str | None) -> NodeEvent | None:
    """The newest event, if it isn't older than a time; ``None`` also if that is not known.

    :param since: in ISO 8601, as Ironic writes it.
    """
    if not events:
        return None
    began, written = _time(since), _time(events[0].created_at)
    if began is None or written is None or written < began.replace(microsecond=0):
        return None
    return events[0]


def in_words(event: NodeEvent, said: str = "") -> str:
    """An event for people: in one line, and bounded.

    :param said: what they read before it; an event's text is not said a second time.
    """
    origin = ", ".join(
        part
        for part in (
            event.severity,
            event.event_type,
            f"by {event.conductor}" if event.conductor else "",
            f"at {event.created_at}" if event.created_at else "",
        )
        if part
    )
    text = " ".join((event.event or "").split())
    if text in " ".join(said.split()):
        return f"Ironic's history of the node: {origin}"
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST - 3]}..."
    return f"Ironic's history of the node: {text} ({origin})"


def _time(text: str | None) -> datetime.datetime | None:
    try:
        time = datetime.datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
