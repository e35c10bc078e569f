# SPDX-License-Identifier: Apache-2.0

"""Hooks: an operator's own code in a deployment, so that nobody has to fork the driver.

A hook is a class that an entry point in ``ironic_virt.hooks`` names and ``[ironic] hooks``
enables by the entry point's name.  One object of it serves all deployments, from any thread.

Any exception of a hook, ``SystemExit`` too, fails the build or the rebuild, with an error that
names the hook, the node and the instance.  What a hook returns is checked before it is used.
A hook has no deadline: nothing can end foreign code.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.node import Node
from ironic_virt.baremetal.ports import Port, Portgroup
from ironic_virt.conf import plugins
from ironic_virt.virt import ConfigDrive, Flavor, Instance, InstanceLike, VirtAPI

LOG = logging.getLogger(__name__)

NAMESPACE = "ironic_virt.hooks"
"""The namespace of the entry points."""

Document = dict[str, Any]
"""A document of a config drive: what JSON can carry."""

# No hook needs them, and what it does not have it can't pass on.
_WITHHELD = ("admin_pass", "random_seed")
_PARTS = ("links", "networks", "services")


# -- what a hook is given -----------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class NodeView:
    """What a hook gets to know of a node.

    :param capabilities: those in the node's ``properties``, by name.
    :param extra: the node's ``extra``: what operators have written there.
    """

    uuid: str
    name: str | None
    resource_class: str | None
    traits: frozenset[str]
    conductor_group: str | None
    shard: str | None
    capabilities: Mapping[str, str] = dataclasses.field(hash=False)
    extra: Mapping[str, Any] = dataclasses.field(repr=False, hash=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment, or a rebuild, of an instance on a node.  Read it only.

    :param instance: with its flavor; ``node`` is the node's uuid.
    :param metadata: what the instance's user has set: ``openstack server create --property``.
    :param is_rebuild: the instance was there before.
    :param ports: returns the node's ports.  It asks Ironic when it is first called.
    :param portgroups: the same of the node's port groups.
    """

    instance: Instance
    metadata: Mapping[str, str] = dataclasses.field(repr=False, hash=False)
    node: NodeView
    is_rebuild: bool
    ports: Callable[[], Sequence[Port]] = dataclasses.field(repr=False)
    portgroups: Callable[[], Sequence[Portgroup]] = dataclasses.field(repr=False)


# -- what a hook is -----------------------------------------------------------


class Refused(Exception):
    """For a hook to raise: the deployment must not go on.

    The instance's user reads the reason.

    :param reason: one sentence.
    :param another_node: another node may do, so a build is tried on one.
    """

    def __init__(self, reason: str, *, another_node: bool = False) -> None:
        self.another_node = another_node
        super().__init__(reason)


class Hook:
    """The base class of hooks.  A method that is not overridden does nothing.

    :param conf: the options.  A hook may register further ones, in a new group.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read what options there are, once."""

    def before_deploy(self, deployment: Deployment) -> None:
        """Called when the node is reserved, before the config drive is made.

        Nothing about the deployment has been written to the node.  After a crash it may be
        called again for the same deployment.
        """

    def network_data(self, data: Document, deployment: Deployment) -> Document:
        """Return the ``network_data.json`` of the config drive.

        Called only if the instance has a config drive.

        :param data: in OpenStack's form, with ``links``, ``networks`` and ``services``; a
            copy, which may be changed and returned.
        """
        return data

    def metadata(self, data: Document, deployment: Deployment) -> Document:
        """Return the ``meta_data.json`` of the config drive.

        Called only if the instance has a config drive.

        :param data: a copy, which may be changed and returned; without ``admin_pass`` and
            ``random_seed``, which are added afterwards.
        """
        return data

    def after_deploy(self, deployment: Deployment) -> None:
        """Called when the node is active, before the instance is.

        An error tears the node down.  After a rebuild the node is left as it is.  After a
        crash it may be called again for the same deployment.
        """


# -- who calls them -----------------------------------------------------------


class Hooks:
    """The hooks that are enabled, by name and in the order in which they are called.

    Thread-safe as far as they are.
    """

    def __init__(self, hooks: Mapping[str, Hook], client: IronicClient, virtapi: VirtAPI) -> None:
        self._hooks = hooks
        self._client = client
        self._virtapi = virtapi

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, client: IronicClient, virtapi: VirtAPI) -> Hooks:
        """Load the hooks that ``[ironic] hooks`` names.

        :raises InvalidConfiguration: a name isn't installed (the error lists those that are),
            or its class can't be loaded.
        """
        names = conf.ironic.hooks
        loaded = plugins.load(NAMESPACE, names, Hook, conf, "[ironic] hooks") if names else {}
        if loaded:
            LOG.info("Hooks are called in this order: %s", ", ".join(loaded))
        return cls(loaded, client, virtapi)

    def of(self, instance: InstanceLike, node: Node, *, is_rebuild: bool = False) -> Calls:
        """The calls for one deployment.

        :param node: the instance's node, read by a separate request.
        """
        return Calls(self._hooks, lambda: self._deployment(instance, node, is_rebuild=is_rebuild))

    def _deployment(self, instance: InstanceLike, node: Node, *, is_rebuild: bool) -> Deployment:
        client = self._client
        return Deployment(
            instance=_copy(instance, node.uuid),
            metadata=_frozen(self._virtapi.instance_metadata(instance)),
            node=NodeView(
                uuid=node.uuid,
                name=node.name,
                resource_class=node.resource_class,
                traits=node.traits,
                conductor_group=node.conductor_group,
                shard=node.shard,
                capabilities=_frozen(dict(node.properties.capabilities)),
                extra=_frozen(node.extra or {}),
            ),
            is_rebuild=is_rebuild,
            ports=functools.cache(lambda: tuple(client.ports.listed(node.uuid))),
            portgroups=functools.cache(lambda: tuple(client.ports.groups(node.uuid))),
        )


class Calls:
    """Calls the hooks for one deployment, one after another.

    Every method raises :class:`HookFailed` if a hook refuses or fails, and an
    :class:`IronicError` if Ironic can't be asked for the node's ports.
    """

    def __init__(self, hooks: Mapping[str, Hook], make: Callable[[], Deployment]) -> None:
        self._hooks = hooks
        self._make = functools.cache(make)

    def before_deploy(self) -> bool:
        """Call each hook's ``before_deploy``.

        :returns: whether there was one, so that time has passed.
        """
        return self._tell("before_deploy")

    def after_deploy(self) -> None:
        """Call each hook's ``after_deploy``."""
        self._tell("after_deploy")

    def config_drive(self, drive: ConfigDrive) -> ConfigDrive:
        """A config drive with network data and metadata as the hooks want them."""
        whole: Document = {**{part: [] for part in _PARTS}, **(drive.network_data or {})}
        edited = self._edited("network_data", whole, _why_no_network_data)
        given = drive.meta_data
        withheld = {key: given[key] for key in _WITHHELD if key in given}
        shown = {key: value for key, value in given.items() if key not in withheld}
        return dataclasses.replace(
            drive,
            network_data=drive.network_data if edited == whole else edited,
            meta_data={**withheld, **self._edited("metadata", shown)},
        )

    def _edited(
        self,
        method: str,
        document: Document,
        why_not: Callable[[Document], str | None] = lambda document: None,
    ) -> Document:
        for name in self._with(method):
            returned = self._call(name, method, copy.deepcopy(document))
            try:
                document = _plain(returned)
                reason = why_not(document)
            except (TypeError, ValueError, RecursionError) as exc:
                reason = str(exc)
            if reason:
                raise self._failed(name, f"returned in {method} what can't be used: {reason}")
        return document

    def _tell(self, method: str) -> bool:
        names = self._with(method)
        for name in names:
            self._call(name, method)
        return bool(names)

    def _with(self, method: str) -> list[str]:
        """The names of the hooks that override a method."""
        mute = getattr(Hook, method)
        return [
            name for name, hook in self._hooks.items() if getattr(type(hook), method) is not mute
        ]

    def _call(self, name: str, method: str, *given: Any) -> Any:
        deployment = self._make()
        call = getattr(self._hooks[name], method)
        try:
            return call(*given, deployment)
        except Refused as exc:
            raise self._failed(
                name, f"refused the deployment: {exc}", retriable=exc.another_node
            ) from exc
        except exceptions.IronicError as exc:
            # Of the request for the ports: the error says whether another try may help.
            exc.add_note(f"Hook {name!r} had asked for it")
            raise
        except BaseException as exc:
            # The text is for operators: it may hold what the instance's user must not read.
            LOG.exception(
                "[hook-failed] Hook %r failed in %s for instance %s, node %s",
                *(name, method, deployment.instance.uuid, deployment.node.uuid),
            )
            raise self._failed(
                name, f"failed in {method} ({type(exc).__name__}); the log says why"
            ) from exc

    def _failed(self, name: str, what: str, *, retriable: bool = False) -> exceptions.HookFailed:
        deployment = self._make()
        return exceptions.HookFailed(
            deployment.node.uuid, deployment.instance.uuid, name, what, retriable=retriable
        )


def _copy(instance: InstanceLike, node: str) -> Instance:
    """Copy the compute service's object of an instance into plain values."""
    names = [field.name for field in dataclasses.fields(Flavor)]
    flavor = {name: getattr(instance.flavor, name) for name in names}
    flavor["extra_specs"] = _frozen(flavor["extra_specs"])
    return Instance(
        uuid=instance.uuid,
        name=instance.name,
        flavor=Flavor(**flavor),
        display_name=instance.display_name,
        host=instance.host,
        node=node,
        project_id=instance.project_id,
        user_id=instance.user_id,
    )


def _frozen(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    return types.MappingProxyType(copy.deepcopy(dict(mapping)))


def _plain(returned: object) -> Document:
    """What a hook has returned, as JSON carries it.

    :raises TypeError, ValueError, RecursionError: it can't; without any of the contents.
    """
    if not isinstance(returned, dict):
        raise TypeError(f"{type(returned).__name__}, and not a dict")
    plain: Document = json.loads(json.dumps(returned, allow_nan=False))
    return plain


def _why_no_network_data(document: Document) -> str | None:
    for part in _PARTS:
        items = document.get(part, [])
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            return f"{part} is not a list of objects"
    return None
