# SPDX-License-Identifier: Apache-2.0

"""With a shard or a group set, every list is restricted to it, at every version of the API."""

import dataclasses
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ironic_virt import exceptions
from ironic_virt.testing.fake_ironic import Conductor, FakeIronic
from tests.unit.driver.conftest import DURATIONS
from tests.unit.driver.stage import Stage

LATEST = (1, 115)


def filters_of_lists(fake: FakeIronic) -> Iterator[dict[str, str]]:
    """The queries of all lists of nodes but those for one instance's node."""
    for entry in fake.requests.matching("GET", "/nodes(/detail)?/?$"):
        query = dict(urllib.parse.parse_qsl(entry.query, keep_blank_values=True))
        if "instance_uuid" not in query:
            yield query


def live(stage: Stage, nodes: list[str], *, able: bool) -> None:
    """The whole life of a service with several instances at a time.

    :param able: the server can do all of it; otherwise refusals are what is expected.
    """

    def attempt(step: Callable[..., object], *args: object) -> None:
        try:
            step(*args)
        except exceptions.IronicVirtError:
            if able:
                raise

    instances = [stage.instance(node, uuid=str(uuid.uuid4())) for node in nodes]
    stage.service.live = ["compute1", "compute2"]
    stage.service.owned = {instance.uuid for instance in instances}
    driver = stage.driver
    attempt(driver.init_host, "compute1")
    attempt(driver.get_available_nodes, True)
    with ThreadPoolExecutor(len(nodes)) as threads:
        list(threads.map(lambda instance: attempt(stage.spawn, instance), instances))
        attempt(driver.get_available_nodes, True)
        for instance in instances:
            attempt(driver.get_available_resource, instance.node)
            attempt(driver.node_is_available, instance.node)
            attempt(driver.is_node_deleted, instance.node)
            attempt(driver.instance_exists, instance)
            attempt(driver.power_off, instance)
        list(threads.map(lambda instance: attempt(stage.destroy, instance), instances))
    attempt(driver.get_available_nodes, True)


@pytest.mark.parametrize("newest", [(1, 89), (1, 90), LATEST])
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"shard_key": "a"}, {"shard": "a"}),
        ({"conductor_group": "Rack"}, {"conductor_group": "rack"}),
        ({"conductor_group": '""'}, {"conductor_group": ""}),
        (
            {"conductor_group": "rack", "shard_key": "a"},
            {"conductor_group": "rack", "shard": "a"},
        ),
        (
            {"conductor_group": "rack", "peer_list": "compute1,compute2"},
            {"conductor_group": "rack"},
        ),
    ],
    ids=["shard", "group", "default-group", "both", "group-and-peers"],
)
def test_no_list_is_ever_without_its_filter(set_stage, newest, options, wanted) -> None:
    fake = FakeIronic(
        # So long that all are waited for at the same time.
        durations=dataclasses.replace(DURATIONS, deploy=300),
        max_version=newest,
        conductors=(Conductor(), Conductor(group="rack")),
    )
    node_fields = {"shard": "a", "conductor_group": wanted.get("conductor_group", "")}
    nodes = fake.add_nodes(3, ports=1, **node_fields)
    outside = fake.add_node(ports=1, shard="b", conductor_group="elsewhere")
    stage = set_stage(fake, **options)
    able = newest >= (1, 90)
    if not able:
        for ask in (lambda: stage.driver.init_host("compute1"), stage.refresh):
            with pytest.raises(exceptions.MicroversionNotSupported, match=r"1\.90"):
                ask()
    live(stage, nodes, able=able)
    lists = list(filters_of_lists(fake))
    for query in lists:
        assert wanted.items() <= query.items(), query
    waits = [query for query in lists if query.get("provision_state") == "deploying"]
    assert bool(waits) is able, "several instances were waited for"
    touched = {entry.path for entry in fake.requests.mutating()}
    assert bool(touched) is able
    assert not any(outside in path for path in touched)
