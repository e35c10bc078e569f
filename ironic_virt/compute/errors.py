# SPDX-License-Identifier: Apache-2.0

"""The errors that concern the reference service and its records.

They hang in the package's error tree and follow its rules: what is known is in
attributes, the text is for people.  No text holds a database's password.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

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
    """The root of the errors about records.

    :cvar sentence: what people read; the names in it are the error's arguments, in this order,
        and its attributes.
    """

    sentence = "{reason}"

    def __init__(self, *values: object) -> None:
        fields = string.Formatter().parse(self.sentence)
        names = [name for _, name, _, _ in fields if name is not None]
        vars(self).update(zip(names, values, strict=True))
        super().__init__(self.sentence.format_map(vars(self)))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


# -- the database -------------------------------------------------------------


class DatabaseError(RecordsError):
    """The database can't be used now: its URL without the password, and what it said itself."""

    sentence = "The database {url} can't be used: {reason}"


class SchemaMismatch(RecordsError):
    """The tables are not those of this version of the package.

    :param version: that of the tables; ``None``: there are none.
    """

    def __init__(self, url: str, version: int | None, needed: int) -> None:
        self.version = version
        has = f"tables of version {version}, not {needed}"
        if version is None:
            has, advice = "no tables", "start 'ironic-virt-compute', which makes them"
        elif version > needed:
            advice = "that is of a newer version; upgrade this package"
        else:
            advice = (
                "use an empty database, and take the servers over with 'ironic-virt server adopt'"
            )
        super().__init__(f"The database {url} has {has}: {advice}")


# -- services -----------------------------------------------------------------


class ServiceNotFound(RecordsError):
    """No compute service of this name has ever registered, or it was deleted."""

    sentence = "There is no compute service {host!r}"


class ServiceSuperseded(RecordsError):
    """Another process has registered as this compute service: this one must stop."""

    sentence = (
        "Another process has taken over as compute service {host!r}: this one must stop. "
        "Each service needs its own [DEFAULT] host"
    )


class ServiceInUse(RecordsError):
    """The service still owns something and can't be deleted."""

    sentence = "Compute service {host!r} can't be deleted: {reason}"


# -- compute nodes ------------------------------------------------------------


class ComputeNodeNotFound(RecordsError):
    """There is no record of this node."""

    sentence = "There is no compute node record for node {node}{advice}"


class ComputeNodeInUse(RecordsError):
    """An instance has the node, so its record can't be deleted, and no other can be adopted."""

    sentence = "Node {node} has server {server} in the records"


class ClaimLost(RecordsError):
    """The node was not free any more when it was claimed; nothing was changed."""

    sentence = "Node {node} was not free any more when it was claimed for server {server}"


# -- instances and flavors ----------------------------------------------------


class NoSuchInstance(RecordsError):
    """No instance has this uuid or name."""

    sentence = "There is no server {server!r}"


class AmbiguousName(RecordsError):
    """Several instances have the name."""

    sentence = "{count} servers are named {name!r}: say which by uuid ({uuids})"


class ConflictingRequest(RecordsError):
    """The instance can't take this request now; nothing was changed."""

    sentence = "Server {server}: {reason}"


class InstanceExists(RecordsError):
    """There is an instance of this uuid already."""

    sentence = "There is a server {server} already"


class FlavorNotFound(RecordsError):
    """There is no flavor of this name."""

    sentence = "There is no flavor {name!r}"


class FlavorExists(RecordsError):
    """There is a flavor of this name already."""

    sentence = "There is a flavor {name!r} already"


# -- requests -----------------------------------------------------------------


class InvalidRequest(RecordsError):
    """The request is impossible; nothing was written."""


class PortTaken(InvalidRequest):
    """Another instance has a port; nothing was written."""

    sentence = "server {holder} has the port {port}"


class RequestTimeout(RecordsError):
    """What was asked for isn't done after so long; it still holds."""

    sentence = "Not done after {seconds:g} s: server {servers}; the request continues"
