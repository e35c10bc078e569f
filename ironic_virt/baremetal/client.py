# SPDX-License-Identifier: Apache-2.0

"""Ironic's REST API, typed: everything that the package sends to Ironic goes through here.

Every method is one request, or one per page, sent by
:mod:`ironic_virt.baremetal.http.requests`.  A method that changes something knows how
to see whether it has already happened, should its reply be lost.

Thread-safe.  Errors are those of :mod:`ironic_virt.exceptions`, each with the
server's message, the node and the request id.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from oslo_config import cfg

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.allocations import Allocations
from ironic_virt.baremetal.consoles import Consoles
from ironic_virt.baremetal.history import History
from ironic_virt.baremetal.http import answers
from ironic_virt.baremetal.http.connection import Answer, Channel, KeystoneChannel
from ironic_virt.baremetal.http.reachability import ReportingChannel, describe_url
from ironic_virt.baremetal.http.requests import Call, Guard, Observe, RequestFence, Sender, path_of
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.baremetal.http.versions import ServerVersions
from ironic_virt.baremetal.management import Management
from ironic_virt.baremetal.node import LIST_FIELDS, Node
from ironic_virt.baremetal.node_decoder import NodeDecoder
from ironic_virt.baremetal.node_filter import NodeFilter
from ironic_virt.baremetal.node_lists import NodeLists
from ironic_virt.baremetal.patches import JsonPatch, patch_is_applied
from ironic_virt.baremetal.ports import NetworkPorts
from ironic_virt.baremetal.volumes import NodeVolumes

_ONE_NODE_FIELDS = (
    *LIST_FIELDS,
    "maintenance_reason",
    "reservation",
    "provision_updated_at",
    "instance_info",
    "extra",
    "deploy_interface",
    "storage_interface",
    "console_enabled",
    "conductor_group",
    "shard",
    "retired",
    "protected",
    "protected_reason",
    "owner",
    "lessee",
    # Not the health: no action depends on it.
    "disable_power_off",
    "instance_name",
)
_ALL_FIELDS = frozenset(_ONE_NODE_FIELDS)


class Validation(msgspec.Struct, frozen=True):
    """The validation of one of a node's interfaces.

    :ivar result: true, false, or null when the interface isn't supported.
    """

    result: bool | None = None
    reason: str | None = None


_OBJECT = answers.make_reader(dict[str, Any], "a node")
_VALIDATION = answers.make_reader(dict[str, Validation], "a validation")


class IronicClient:
    """A client of one Ironic.

    :param channel: sends single requests.
    :param retry: when to send them again.
    :param guard: around each request: see :data:`Guard`.
    :param observe: called after each request: see :data:`Observe`.
    :param failure_domain: ``[ironic] failure_domain``.
    """

    def __init__(
        self,
        channel: Channel,
        retry: RetryPolicy | None = None,
        guard: Guard | None = None,
        observe: Observe | None = None,
        failure_domain: str | None = None,
    ) -> None:
        self._sender = Sender(channel, retry or RetryPolicy(), guard, observe)
        self._decoder = NodeDecoder(failure_domain)

    @classmethod
    def from_conf(
        cls,
        conf: cfg.ConfigOpts,
        observe: Observe | None = None,
        fence: RequestFence | None = None,
        failure_domain: str | None = None,
    ) -> IronicClient:
        """A client by the ``[ironic]`` options.

        :param observe: called after each request: see :data:`Observe`.
        :param fence: asked around and within each request.
        :param failure_domain: instead of the option.
        """
        last = fence.may_change if fence else None
        channel = ReportingChannel(KeystoneChannel.from_conf(conf, last), describe_url(conf))
        guard = fence.sending if fence else None
        retry = RetryPolicy.from_conf(conf)
        return cls(channel, retry, guard, observe, failure_domain or conf.ironic.failure_domain)

    def single_try(self) -> IronicClient:
        """Return a copy of the client that never retries, for callers that do so themselves."""
        return self._by(self._sender.single_try())

    def within(self, timeout: float) -> IronicClient:
        """Return a copy of the client with a shorter timeout.

        :param timeout: seconds for each answer, if that is less than usual.
        """
        return self._by(self._sender.within(timeout))

    def rechecking(self, check: Callable[[], object]) -> IronicClient:
        """Return a copy of the client that calls a check before it retries a change.

        So a change that waited for a lock is not sent to a node that has changed meanwhile.
        The check is not called before the first try, nor once a lost reply is found to have
        been applied.  A GET within the check is tried once: if it fails with a transient error,
        the whole try has failed, and the next one begins with the check again.

        :param check: raises if the change is no longer right, which ends the change with
            that error; called after the checks that this client already has.
        """
        return self._by(self._sender.rechecking(check))

    def _by(self, sender: Sender) -> IronicClient:
        twin = copy.copy(self)
        twin._sender = sender
        return twin

    # -- versions -------------------------------------------------------------

    @property
    def versions(self) -> ServerVersions:
        """The API versions that Ironic speaks, as far as is known.

        :raises MicroversionNotSupported: Ironic is too old for the driver.
        """
        return self._sender.versions

    @property
    def allocations(self) -> Allocations:
        """Reservations of nodes that Ironic makes."""
        return Allocations(self._sender)

    @property
    def consoles(self) -> Consoles:
        """The consoles of nodes."""
        return Consoles(self._sender)

    @property
    def ports(self) -> NetworkPorts:
        """Network ports of nodes, and the VIFs on them."""
        return NetworkPorts(self._sender)

    @property
    def volumes(self) -> NodeVolumes:
        """Volume connectors and targets of nodes."""
        return NodeVolumes(self._sender)

    @property
    def history(self) -> History:
        """The events that conductors record for nodes."""
        return History(self._sender)

    @property
    def management(self) -> Management:
        """Requests to nodes' management interfaces."""
        return Management(self._sender)

    # -- nodes, read ----------------------------------------------------------

    @property
    def lists(self) -> NodeLists:
        """The lists that the inventory asks for."""
        return NodeLists(self._sender, self._decoder)

    def list_nodes(
        self,
        where: NodeFilter = NodeFilter(),  # noqa: B008 - frozen
        *,
        fields: Iterable[str] | None = None,
    ) -> list[Node]:
        """All nodes that match, page by page.

        :raises IronicError: any page failed; there is no partial result.
        """
        return self.lists.listed(where, fields).nodes

    def get_node(self, uuid: str) -> Node:
        """One node, fresh, with everything that the driver looks at.

        Never restricted to a shard or a group.

        :raises NodeNotFound: Ironic has no such node.
        :raises NodeUnreadable: a field is missing or malformed.
        """
        call = Call("GET", path_of("nodes", uuid), fields=_ONE_NODE_FIELDS, node=uuid)
        return self._sender.read(call, self._node_in)

    def node_of_instance(self, instance_uuid: str) -> Node | None:
        """The node that carries an instance, fresh; never restricted either.

        :raises UnexpectedAnswer: more than one node carries it, or another one came.
        :raises NodeUnreadable: a field of the node is missing or malformed.
        """
        carrier = NodeFilter(instance_uuid=instance_uuid)

        def parse(answer: Answer) -> Node | None:
            nodes, _ = self._decoder.page(answer.body, _shown_in(answer))
            carrier.others(nodes)
            if len(nodes) > 1:
                raise exceptions.UnexpectedAnswer(
                    f"server {instance_uuid} is on several nodes: "
                    + ", ".join(node.uuid for node in nodes)
                )
            return _readable(nodes[0]) if nodes else None

        return self._sender.read(Call("GET", "/nodes", carrier.params(), _ONE_NODE_FIELDS), parse)

    def _node_in(self, answer: Answer) -> Node:
        """:raises NodeUnreadable: a field is missing or malformed."""
        return _readable(self._decoder.one(answer.body, _shown_in(answer)))

    # -- nodes, changed -------------------------------------------------------

    def patch_node(self, uuid: str, patch: JsonPatch) -> Node:
        """Apply a JSON patch; on a lost reply, see first whether it has been applied.

        :param patch: ``add``, ``replace`` and ``remove`` operations.
        :returns: the node as it is afterwards.
        :raises Conflict: among others when ``instance_uuid`` is another's.
        """
        path = path_of("nodes", uuid)

        def parse(answer: Answer) -> Node | None:
            return self._node_in(answer) if patch_is_applied(_OBJECT(answer), patch) else None

        return self._sender.change(
            Call("PATCH", path, json=list(patch), node=uuid),
            lambda: self._sender.read(Call("GET", path, node=uuid), parse),
            self._node_in,
        )

    def set_provision_state(
        self,
        uuid: str,
        verb: str,
        *,
        applied: Callable[[Node], bool],
        configdrive: str | Mapping[str, Any] | None = None,
        rescue_password: str | None = None,
        deploy_steps: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Ask for a change of the provision state; it happens later.

        :param verb: ``active``, ``deleted``, ``abort``, ...
        :param applied: given the node re-read after a lost reply, whether the
            request was taken.
        :param configdrive: base64 of a gzipped ISO, or the JSON form.
        :param rescue_password: for the verb ``rescue``.
        :param deploy_steps: for the verbs ``active`` and ``rebuild``, in addition to the steps
            that the node's hardware runs anyway.
        :raises BadRequest: the node's state doesn't allow it.
        """
        body: dict[str, Any] = {"target": verb}
        if rescue_password is not None:
            body["rescue_password"] = rescue_password
        if deploy_steps:
            body["deploy_steps"] = list(deploy_steps)
        if configdrive is not None:
            body["configdrive"] = configdrive
        self._change_state(uuid, "provision", body, applied)

    def set_power_state(
        self,
        uuid: str,
        target: str,
        *,
        applied: Callable[[Node], bool],
        timeout: int | None = None,
    ) -> None:
        """Ask for a change of the power state; it happens later.

        :param target: ``power on``, ``power off``, ``rebooting``, ``soft ...``.
        :param timeout: seconds that Ironic gives a soft change.
        """
        body: dict[str, Any] = {"target": target}
        if timeout is not None:
            body["timeout"] = timeout
        self._change_state(uuid, "power", body, applied)

    def _change_state(
        self,
        uuid: str,
        kind: str,
        body: Mapping[str, Any],
        applied: Callable[[Node], bool],
    ) -> None:
        self._sender.change(
            Call("PUT", path_of("nodes", uuid, "states", kind), json=body, node=uuid),
            lambda: applied(self.get_node(uuid)) or None,
            answers.accepted,
        )

    def validate_node(self, uuid: str) -> dict[str, Validation]:
        """Have Ironic validate the node.

        :returns: the result by the name of the interface.
        """
        call = Call("GET", path_of("nodes", uuid, "validate"), node=uuid, is_costly=True)
        results = self._sender.read(call, _VALIDATION)
        return {
            name: Validation(each.result, logs.reason(each.reason))
            for name, each in results.items()
        }


def _shown_in(answer: Answer) -> frozenset[str]:
    """The fields that an answer about a node should have."""
    return _ALL_FIELDS - answer.lacking


def _readable(node: Node) -> Node:
    """Return the node if every field that was asked for could be read; else raise."""
    if node.malformed:
        raise exceptions.NodeUnreadable(node.malformed, node=node.uuid)
    return node
