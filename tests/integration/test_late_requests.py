# SPDX-License-Identifier: Apache-2.0

"""Requests that Ironic carries out long after they were given up, on a node that is another's."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from ironic_virt import exceptions, virt
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer, KeystoneChannel
from ironic_virt.baremetal.http.retry import RetryPolicy
from ironic_virt.driver import IronicDriver
from tests.integration.services import Service
from tests.integration.stage import Stage


class _StallingChannel:
    """Records the changes that are sent; some of them are on their way for a long time.

    :ivar stalls: whether a request is held back; its sender gets no answer.
    """

    def __init__(self, channel: KeystoneChannel) -> None:
        self._channel = channel
        self.changes: list[tuple[str, str, dict[str, Any]]] = []
        self.stalls: Callable[[str, Any], bool] = lambda method, body: False

    def send(self, method: str, path: str, **request: Any) -> Answer:
        if method != "GET":
            self.changes.append((method, path, request))
            if self.stalls(method, request.get("json")):
                raise exceptions.IronicUnreachable("no whole answer within 60 s")
        return self._channel.send(method, path, **request)

    def arrive(self, method: str, verb: str = "") -> list[int]:
        """Have requests of a kind arrive once more; the statuses of their answers."""
        return [
            self._channel.send(sent, path, **request).status
            for sent, path, request in self.changes
            if sent == method and (not verb or request["json"]["target"] == verb)
        ]


class _Former(Service):
    """A service that gives requests up."""

    def make_driver(self, options: cfg.ConfigOpts) -> IronicDriver:
        self.channel = _StallingChannel(KeystoneChannel.from_conf(options))
        client = IronicClient(self.channel, RetryPolicy(0, 1))
        return IronicDriver(options, self, client=client)


class _Next(Service):
    """The service of the node's next instance.

    :ivar before_deployment: called right before it asks for a deployment.
    """

    def __init__(self, config: Path) -> None:
        super().__init__(config)
        self.before_deployment: Callable[[], object] = lambda: None

    def report_progress(self, instance: virt.InstanceLike, step: str, detail: str = "") -> None:
        if step == "deploying" and detail == "available":
            self.before_deployment()


@pytest.fixture
def former(stage: Stage) -> Iterator[_Former]:
    former = _Former(stage.config)
    yield former
    former.driver.cleanup_host()


@pytest.fixture
def following(stage: Stage) -> Iterator[_Next]:
    following = _Next(stage.config)
    yield following
    following.driver.cleanup_host()


def whose_drive(stage: Stage, node: str) -> str:
    """The instance whose config drive Ironic's conductor has for a node."""
    drive = stage.operator.kept_by_ironic(node)["configdrive"]
    found: str = drive["meta_data"]["uuid"]
    return found


def test_a_late_deployment_is_of_what_its_instance_asked_for(stage, node, former, following):
    first, second = former.instance_on(node), following.instance_on(node)
    former.channel.stalls = lambda method, body: method == "PUT" and body.get("target") == "active"
    with pytest.raises(exceptions.IronicVirtError):
        former.spawn(first, [])
    assert stage.operator.node(node)["instance_uuid"] is None
    answers: list[int] = []
    following.before_deployment = lambda: answers.extend(former.channel.arrive("PUT", "active"))
    following.spawn(second, [])
    assert answers == [202]
    there = stage.operator.wait_for_state(node, "active")
    assert there["instance_uuid"] == second.uuid
    assert whose_drive(stage, node) == second.uuid


def test_what_runs_is_not_ended_by_a_late_request(stage, node, former) -> None:
    first = former.instance_on(node)
    former.spawn(first, [])
    former.rebuild(first)
    former.destroy(first)
    stage.operator.wait_for_state(node, "available")
    # One that never gets so far is released by a patch.
    former.channel.stalls = lambda method, body: method == "PUT" and body.get("target") == "active"
    with pytest.raises(exceptions.IronicVirtError):
        former.spawn(former.instance_on(node), [])
    service = stage.another_service(protect_instances=True)
    second = service.instance_on(node)
    service.spawn(second, [])
    there = stage.operator.node(node)
    assert (there["protected"], there["instance_uuid"]) == (True, second.uuid)
    assert second.uuid in there["protected_reason"]

    assert former.channel.arrive("PUT", "deleted") == [403]
    assert former.channel.arrive("PUT", "rebuild") == [403]
    assert set(former.channel.arrive("PATCH")) <= {400, 409}
    assert stage.operator.at_rest(node) == there
    assert whose_drive(stage, node) == second.uuid

    service.rebuild(second)
    assert stage.operator.node(node)["protected"]
    service.destroy(second)
    left = stage.operator.wait_for_state(node, "available")
    assert (left["protected"], left["instance_uuid"], left["instance_info"]) == (False, None, {})


def test_a_late_release_leaves_a_server_whose_build_went_on(stage, node, former) -> None:
    instance = former.instance_on(node)
    former.driver.prepare_for_spawn(instance)
    former.channel.stalls = lambda method, body: method == "PATCH"
    with pytest.raises(exceptions.IronicVirtError):
        former.driver.failed_spawn_cleanup(instance)
    (_, path, release) = former.channel.changes[-1]
    former.channel.stalls = lambda method, body: False
    former.spawn(instance, [])
    there = stage.operator.wait_for_state(node, "active")
    assert former.channel.send("PATCH", path, **release).status == 400
    assert stage.operator.node(node)["instance_uuid"] == there["instance_uuid"] == instance.uuid
