# SPDX-License-Identifier: Apache-2.0

"""The errors that concern the reference service and its records.

They hang in the package's error tree and follow its rules: what is known is in
attributes, the text is for people.  No text holds a database's password.
"""

from __future__ import annotations

from collections.abc import Sequence

from ironic_virt import exceptions


def one_line(error: BaseException) -> str:
    """What an error says, in one line that is never empty.

    Ours are written for people; any other one needs at least its kind.
    """
    text = " ".join(str(error).split())
    if isinstance(error, exceptions.IronicVirtError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class RecordsError(exceptions.IronicVirtError):
    """The root of the errors about records."""


# -- the database -------------------------------------------------------------


class DatabaseError(RecordsError):
    """The database can't be used now.

    :param url: the connection URL, its password hidden.
    :param reason: what the database or its driver said, on one line.
    """

    event = "failed"

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"The database {url} {self.event}: {reason}")


class DatabaseUnreachable(DatabaseError):
    """The database could not be opened or did not answer."""

    event = "can't be used"


class DatabaseFailed(DatabaseError):
    """The database refused a statement."""


class SchemaMismatch(RecordsError):
    """The tables are not those of this version of the package.

    :param found: the version in the database; ``None`` if it has no tables.
    :param needed: the version that this one works with.
    """

    def __init__(self, url: str, found: int | None, needed: int, advice: str) -> None:
        self.url = url
        self.found = found
        self.needed = needed
        has = "has no tables" if found is None else f"has tables of version {found}, not {needed}"
        super().__init__(f"The database {url} {has}: {advice}")


# -- services -----------------------------------------------------------------


class ServiceNotFound(RecordsError):
    """No compute service of this name has ever registered, or it was deleted."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(f"There is no compute service {host!r}")


class ServiceSuperseded(RecordsError):
    """Another process has registered as this compute service: this one must stop."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"Another process has taken over as compute service {host!r}: this one must stop. "
            "Each service needs its own [DEFAULT] host"
        )


class ServiceInUse(RecordsError):
    """The service still owns something and can't be deleted."""

    def __init__(self, host: str, reason: str) -> None:
        self.host = host
        super().__init__(f"Compute service {host!r} can't be deleted: {reason}")


# -- compute nodes ------------------------------------------------------------


class ComputeNodeNotFound(RecordsError):
    """There is no record of this node.

    :param advice: what to do, where there is more to say.
    """

    def __init__(self, node: str, advice: str = "") -> None:
        self.node = node
        super().__init__(
            f"There is no compute node record for node {node}{f': {advice}' if advice else ''}"
        )


class ComputeNodeInUse(RecordsError):
    """The record can't be deleted: an instance has the node.

    :ivar instance: that instance's uuid.
    """

    def __init__(self, node: str, instance: str) -> None:
        self.node = node
        self.instance = instance
        super().__init__(
            f"The compute node record of node {node} is kept: server {instance} has the node. "
            "Delete the server first"
        )


class ClaimLost(RecordsError):
    """The node was not free any more when it was claimed; nothing was changed."""

    def __init__(self, node: str, instance: str) -> None:
        self.node = node
        self.instance = instance
        super().__init__(
            f"Node {node} was not free any more when it was claimed for server {instance}"
        )


class NoDestination(RecordsError):
    """A service can't be given nodes; nothing was changed."""

    def __init__(self, host: str, reason: str) -> None:
        self.host = host
        self.reason = reason
        super().__init__(f"Nodes can't be moved to compute service {host!r}: {reason}")


# -- instances and flavors ----------------------------------------------------


class NoSuchInstance(RecordsError):
    """No instance has this uuid or name."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        super().__init__(f"There is no server {instance!r}")


class AmbiguousName(RecordsError):
    """Several instances have the name.

    :ivar uuids: theirs.
    """

    def __init__(self, name: str, uuids: Sequence[str]) -> None:
        self.name = name
        self.uuids = tuple(uuids)
        super().__init__(
            f"{len(self.uuids)} servers are named {name!r}: say which by uuid "
            f"({', '.join(self.uuids)})"
        )


class ConflictingRequest(RecordsError):
    """The instance can't take this request now; nothing was changed."""

    def __init__(self, instance: str, reason: str) -> None:
        self.instance = instance
        self.reason = reason
        super().__init__(f"Server {instance}: {reason}")


class InstanceExists(RecordsError):
    """There is an instance of this uuid already."""

    def __init__(self, instance: str) -> None:
        self.instance = instance
        super().__init__(f"There is a server {instance} already")


class FlavorNotFound(RecordsError):
    """There is no flavor of this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is no flavor {name!r}")


class FlavorExists(RecordsError):
    """There is a flavor of this name already."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is a flavor {name!r} already")


# -- requests -----------------------------------------------------------------


class InvalidRequest(RecordsError):
    """The request is impossible; nothing was written."""


class PortTaken(InvalidRequest):
    """Another instance has a port; nothing was written.

    :ivar holder: that instance's uuid.
    """

    def __init__(self, port: str, holder: str) -> None:
        self.port = port
        self.holder = holder
        super().__init__(f"server {holder} has the port {port}")


class RequestTimeout(RecordsError):
    """What was asked for isn't done after so long; it still holds.

    :ivar instances: the uuids of those that are not done.
    """

    def __init__(self, instances: Sequence[str], seconds: float) -> None:
        self.instances = tuple(instances)
        self.seconds = seconds
        super().__init__(
            f"Not done after {seconds:g} s: server {', '.join(self.instances)}; "
            "the request continues"
        )
