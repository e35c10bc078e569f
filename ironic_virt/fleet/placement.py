# SPDX-License-Identifier: Apache-2.0

"""Placement's API, read for thousands of providers with as few requests as it allows.

Lists say which providers there are, which have room for a class and which have a trait.
Allocations and inventories take a request for each provider; several are sent at once.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Collection, Mapping
from concurrent import futures
from typing import Any

from keystoneauth1 import exceptions as ksa_exceptions
from nova import context as nova_context
from nova import exception
from nova.scheduler.client import report
from openstack import exceptions as sdk_exceptions

from ironic_virt import exceptions
from ironic_virt.fleet.deployment import Provider, Server
from ironic_virt.nova import values, zones
from ironic_virt.virt import NodeInventory

VERSION = "1.28"
"""The microversion of requests; from this one on consumers have generations."""
_AT_ONCE = 8
_OK, _NO_CONTENT, _BAD_REQUEST, _NOT_FOUND, _NOT_ACCEPTABLE = 200, 204, 400, 404, 406
_TYPES = "1.38"
"""From this microversion on consumers have types."""
OF_NOVA = (None, "INSTANCE", "MIGRATION")
"""Types of consumers that Nova has made, or that nobody knows."""

Progress = Callable[[str, int, int], None]
"""Called with what is being read, how much of it is done, and how much there is."""


class PlacementFailed(exceptions.IronicVirtError):
    """Placement did not answer, or refused."""


class PlacementSilent(PlacementFailed):
    """Placement did not answer; the next request would wait as long."""


class PlacementClient:
    """Placement, by the ``[placement]`` options of Nova.  Thread-safe."""

    def __init__(self) -> None:
        try:
            self._client = report.SchedulerReportClient()
        except (ksa_exceptions.ClientException, sdk_exceptions.SDKException) as exc:
            raise PlacementSilent(f"Placement, by the options of [placement]: {exc}") from exc

    def ask(
        self, method: str, path: str, *body: Any, good: Collection[int], version: str = VERSION
    ) -> Any:
        """Send a request, or raise :class:`PlacementFailed` if its answer is not a good one."""
        about = f"Placement: {method.upper()} {path}"
        try:
            answer = getattr(self._client, method)(path, *body, version=version)
        except ksa_exceptions.ClientException as exc:
            raise PlacementSilent(f"{about}: {exc}") from exc
        if answer.status_code not in good:
            raise PlacementFailed(f"{about}: {answer.status_code}: {answer.text}")
        return answer

    def _json(self, path: str) -> Any:
        return self.ask("get", path, good=(_OK,)).json()

    def providers(self) -> dict[str, Provider]:
        """All providers, by uuid."""
        listed = self._json("/resource_providers")["resource_providers"]
        return {
            row["uuid"]: Provider(row["uuid"], row["name"], row.get("parent_provider_uuid"))
            for row in listed
        }

    def custom_names(self) -> tuple[set[str], set[str]]:
        """The resource classes and the traits of some provider that are not standard ones."""
        classes = {row["name"] for row in self._json("/resource_classes")["resource_classes"]}
        traits = self._json("/traits?name=startswith:CUSTOM_&associated=true")["traits"]
        return {name for name in classes if name.startswith("CUSTOM_")}, set(traits)

    def having(self, query: str) -> frozenset[str]:
        """The uuids of the providers that fit a query."""
        # Placement calls a query with an unknown class or trait wrong, and lists nothing.
        answer = self.ask("get", f"/resource_providers?{query}", good=(_OK, _BAD_REQUEST))
        return frozenset(row["uuid"] for row in answer.json().get("resource_providers", ()))

    def of(self, provider: str, what: str) -> Any:
        """A resource of a provider; an empty one if there is no provider."""
        path = f"/resource_providers/{provider}/{what}"
        return self.ask("get", path, good=(_OK, _NOT_FOUND)).json().get(what, {})

    def of_each(
        self, what: str, providers: Collection[str], progress: Progress
    ) -> dict[str, Mapping[str, Any]]:
        """A resource of each of several providers."""
        resources: dict[str, Mapping[str, Any]] = {}
        with futures.ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                answers = pool.map(lambda provider: self.of(provider, what), providers)
                for provider, answer in zip(providers, answers, strict=True):
                    resources[provider] = answer
                    progress(f"Placement: {what}", len(resources), len(providers))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return resources

    def consumer_type(self, consumer: str) -> str | None:
        """What kind of consumer it is; ``None``: it holds nothing, or Placement can't tell."""
        good = (_OK, _NOT_ACCEPTABLE)
        answer = self.ask("get", f"/allocations/{consumer}", good=good, version=_TYPES)
        kind = answer.json().get("consumer_type") if answer.status_code == _OK else None
        return None if kind == "unknown" else kind

    def delete_allocations(self, consumer: str) -> None:
        """Delete all allocations of a consumer."""
        self.ask("delete", f"/allocations/{consumer}", good=(_NO_CONTENT, _NOT_FOUND))

    def reserve(self, provider: str, resource_class: str, left: int = 0) -> None:
        """Reserve the inventory of a class, except for ``left``."""
        path = f"/resource_providers/{provider}/inventories/{resource_class}"
        stock = self._json(path)
        stock["reserved"] = stock["total"] - left
        self.ask("put", path, stock, good=(_OK,))

    def allocate(self, server: Server, provider: str, name: str, *, instead_of: str) -> None:
        """Allocate one of a resource class of a provider to a server, by one request.

        Placement allocates nothing from a reserved inventory, and that of a node with a server
        is reserved.  So the reservation is lifted for that moment; another server that is
        scheduled to the node meanwhile finds it in use.

        :param instead_of: the provider whose allocation goes; the server keeps all others,
            such as the bandwidth of its ports.
        """
        stock = self._json(f"/resource_providers/{provider}/inventories/{name}")
        held = self._json(f"/allocations/{server.uuid}")
        amounts = {key: each["resources"] for key, each in held["allocations"].items()}
        previous = amounts.pop(instead_of, {})
        # Along with the node's class go others, of Nova's provider.yaml.
        amounts[provider] = previous if name in previous else {name: 1}
        body = {
            "allocations": {key: {"resources": value} for key, value in amounts.items()},
            "consumer_generation": held.get("consumer_generation"),
            "project_id": server.project_id or "",
            "user_id": server.user_id or "",
        }
        is_lifted = stock["reserved"] >= stock["total"]
        if is_lifted:
            self.reserve(provider, name, left=1)
        try:
            self.ask("put", f"/allocations/{server.uuid}", body, good=(_NO_CONTENT,))
        finally:
            if is_lifted:
                self.reserve(provider, name)

    def change_aggregates(self, provider: str, left: set[str], joined: set[str]) -> None:
        """Have a provider, if it exists, leave some aggregates and join others."""
        path = f"/resource_providers/{provider}/aggregates"
        answer = self.ask("get", path, good=(_OK, _NOT_FOUND))
        if answer.status_code == _NOT_FOUND:
            return
        body = answer.json()
        aggregates = set(body["aggregates"])
        merged = aggregates - left - zones.marks(left) | joined | zones.marks(joined - aggregates)
        if aggregates != merged:
            self.ask("put", path, {**body, "aggregates": sorted(merged)}, good=(_OK,))

    def offer(
        self, provider: str, name: str, offered: NodeInventory, aggregates: Collection[str]
    ) -> None:
        """Create or correct a provider of what a node or a pool offers; add these aggregates.

        Nova's own code does it, so it is not thread-safe.
        """
        context, client = nova_context.get_admin_context(), self._client
        client.clear_provider_cache(init=True)
        try:
            tree = client.get_provider_tree_and_ensure_root(context, provider, name=name)
            values.update_provider_tree(tree, name, values.offer_of(name, offered))
            tree.update_aggregates(name, {*tree.data(name).aggregates, *aggregates})
            client.update_from_provider_tree(context, tree)
        except (exception.NovaException, ksa_exceptions.ClientException) as exc:
            kind = PlacementFailed if isinstance(exc, exception.NovaException) else PlacementSilent
            raise kind(f"Placement: provider {name}: {exc}") from exc

    def delete_provider(self, provider: str) -> None:
        """Delete a provider; it fails if something is allocated from it."""
        self.ask("delete", f"/resource_providers/{provider}", good=(_NO_CONTENT, _NOT_FOUND))


def seconds_ahead(date: str | None, now: Callable[[], float] = time.time) -> float | None:
    """How far a server's clock is ahead, by its ``Date`` header, which has whole seconds."""
    try:
        ahead = email.utils.parsedate_to_datetime(date or "").timestamp() - now()
    except (TypeError, ValueError, OverflowError):
        return None
    return 0.0 if abs(ahead) < 1.0 else ahead
