# SPDX-License-Identifier: Apache-2.0

"""The real Ironic picks the nodes."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_virt import exceptions, virt
from ironic_virt.driver.pools import names
from tests.functional.compute.processes import wait_for
from tests.integration.services import SEEDS, Operator, Service, new_nodes
from tests.integration.stage import Stage
from tools import real_ironic


@dataclasses.dataclass
class Kind:
    """A resource class that no other test has, and its nodes."""

    name: str
    nodes: list[str]

    def instance(self, service: Service, **traits: str) -> virt.Instance:
        """A new instance that wants one of them."""
        wanted = {f"resources:CUSTOM_{self.name.upper().replace('-', '_')}": "1"}
        flavor = virt.Flavor("bm", extra_specs=wanted | traits)
        return service.instance_on(self.pool(service), flavor)

    def pool(self, service: Service) -> str:
        """The name of a service's pool of them."""
        return names.pool_name(service.host, (self.name, frozenset()))


@pytest.fixture
def stage(tmp_path: Path, ironic_on_mariadb: real_ironic.RealIronic) -> Iterator[Stage]:
    """Where Ironic picks the nodes."""
    stage = Stage(ironic_on_mariadb, tmp_path, node_selection="ironic")
    yield stage
    stage.close()


def make_kind(stage: Stage, count: int, name: str | None = None, **like: Any) -> Kind:
    kind = name or f"pooled-{next(SEEDS)}"
    return Kind(kind, new_nodes(stage.ironic, count, resource_class=kind, **like))


def allocation(operator: Operator, instance: virt.Instance) -> dict[str, Any] | None:
    listed = operator.request("GET", "/allocations")["allocations"]
    return next((one for one in listed if one["uuid"] == instance.uuid), None)


def wait_for_release(operator: Operator, instance: virt.Instance) -> None:
    """Return when there is no allocation: Ironic deletes it after it has freed the node."""
    wait_for("the allocation's end", lambda: allocation(operator, instance) is None)


def carriers(operator: Operator, kind: Kind, instance: virt.Instance) -> list[str]:
    """The nodes that carry the instance."""
    return [node for node in kind.nodes if operator.node(node)["instance_uuid"] == instance.uuid]


def test_a_plain_node_comes_before_one_with_a_gpu(stage: Stage) -> None:
    gpus = make_kind(stage, 3, traits=["CUSTOM_GPU"])
    plain = make_kind(stage, 1, gpus.name)
    first, second, third = (gpus.instance(stage.service) for _ in range(3))
    stage.service.driver.prepare_for_spawn(first)
    assert carriers(stage.operator, plain, first) == plain.nodes
    stage.service.driver.prepare_for_spawn(second)
    assert len(carriers(stage.operator, gpus, second)) == 1
    picky = dataclasses.replace(
        third,
        flavor=dataclasses.replace(
            third.flavor,
            extra_specs={**third.flavor.extra_specs, "trait:CUSTOM_GPU": "forbidden"},
        ),
    )
    with pytest.raises(exceptions.ReservationFailed, match="without CUSTOM_GPU: 0"):
        stage.service.driver.prepare_for_spawn(picky)
    for instance in (first, second, picky):
        stage.service.destroy(instance)
        wait_for_release(stage.operator, instance)
