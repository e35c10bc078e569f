# SPDX-License-Identifier: Apache-2.0

"""A channel that answers from a script, and what scripts are made of.

A test tells what Ironic answers, request by request, then reads from
:attr:`ScriptedChannel.requests` what was asked of it.  A request that the script
doesn't foresee fails the test.
"""

import dataclasses
import json as jsonlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from typing import Any, NoReturn
from unittest import mock

from ironic_virt import exceptions
from ironic_virt.baremetal.client import IronicClient
from ironic_virt.baremetal.http.connection import Answer
from ironic_virt.baremetal.http.retry import RetryPolicy

NODE = "6b8e4c56-1a3c-4a30-b0c9-2f6d4c3a9e01"
OTHER_NODE = "d31ab5fa-2b57-4a3a-8d62-6fd9f0f6c0b2"
INSTANCE = "f2f0c9f1-0f0b-4a64-9d84-9b6a2a1f6f11"
OTHER_INSTANCE = "0a1ba8a7-7c34-45a3-94b4-5f0b7f5a2a10"
VIF = "5d1b7a57-20d4-4a0e-9f0c-37b8e8f7b1a3"
REQUEST_ID = "req-5a1e2f63-54ff-4b1f-a8a5-1c7d4d3a9d8e"


@dataclasses.dataclass(frozen=True)
class Request:
    """A request as the client handed it to the channel."""

    method: str
    path: str
    params: dict[str, Any]
    json: Any
    version: str | None

    def __str__(self) -> str:
        return f"{self.method} {self.path or '/'}"


class ScriptedChannel:
    """Gives one scripted reply for each request.

    :param script: answers, or errors to raise, in order.
    :param versions: the server's versions, which it answers outside of the
        script; ``None``: the script answers that, too.
    """

    def __init__(
        self,
        *script: Answer | exceptions.IronicError,
        versions: tuple[str, str] | None = ("1.1", "1.115"),
    ) -> None:
        self.script = list(script)
        self.versions = versions
        self.requests: list[Request] = []
        self.timeouts: list[float | None] = []

    def send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | Sequence[str]] | None = None,
        json: Any = None,
        version: str | None = None,
        timeout: float | None = None,
    ) -> Answer:
        if path == "" and self.versions is not None:
            return versions_answer(*self.versions)
        request = Request(method, path, dict(params or {}), json, version)
        self.requests.append(request)
        self.timeouts.append(timeout)
        assert self.script, f"the script has no answer to {request}"
        reply = self.script.pop(0)
        if isinstance(reply, exceptions.IronicError):
            raise reply
        return reply

    @property
    def lines(self) -> list[str]:
        """The requests as ``METHOD path``."""
        return [str(request) for request in self.requests]


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def client_of(channel: ScriptedChannel, *, retries: int = 3, **more: Any) -> IronicClient:
    """A client whose waiting takes no time."""
    clock = Clock()
    policy = RetryPolicy(
        max_retries=retries, interval=1.0, clock=clock, sleep=clock.sleep, rng=random.Random(1)
    )
    return IronicClient(channel, policy, **more)


class HeldUp:
    """What holds up whoever asks, until all who want the same answer wait for it."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self._asked = threading.Event()
        self._joined = threading.Semaphore(0)
        self._all_wait = threading.Event()

    def __call__(self, *args: Any, **more: Any) -> NoReturn:
        self._asked.set()
        assert self._all_wait.wait(60)
        raise self.error

    def errors_of(self, calls: Sequence[Callable[[], object]]) -> list[BaseException | None]:
        """Make all calls at the same time, each in a thread."""
        wait = futures.Future.result

        def result(future: futures.Future[Any], timeout: float | None = None) -> Any:
            self._joined.release()
            return wait(future, timeout)

        with (
            futures.ThreadPoolExecutor(len(calls)) as pool,
            mock.patch.object(futures.Future, "result", result),
        ):
            made = [pool.submit(call) for call in calls]
            try:
                assert self._asked.wait(60)
                assert all(self._joined.acquire(timeout=60) for _ in calls[1:])
            finally:
                self._all_wait.set()
            return [future.exception(60) for future in made]


# -- replies --------------------------------------------------------------------


def answer(status: int, body: Any = None, **headers: str) -> Answer:
    """An answer; a body that is neither bytes nor ``None`` is sent as JSON."""
    if body is None:
        body = b""
    elif not isinstance(body, bytes):
        body = jsonlib.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"openstack-request-id": REQUEST_ID} | named, body)


def versions_answer(lowest: str, highest: str) -> Answer:
    """What ``GET /v1`` answers."""
    version = {"id": "v1", "status": "CURRENT", "min_version": lowest, "version": highest}
    return answer(200, {"id": "v1", "version": version})


def node_answer(**fields: Any) -> Answer:
    """One node, asked for by itself."""
    return answer(200, whole_json(**fields))


def node_json(uuid: str = NODE, **fields: Any) -> dict[str, Any]:
    """A free node as Ironic sends it, with other fields where given."""
    return {
        "uuid": uuid,
        "name": f"rack-{uuid[:4]}",
        "instance_uuid": None,
        "power_state": "power off",
        "target_power_state": None,
        "provision_state": "available",
        "target_provision_state": None,
        "last_error": None,
        "maintenance": False,
        "properties": {"cpus": 8, "memory_mb": 16384, "local_gb": 100, "cpu_arch": "x86_64"},
        "resource_class": "baremetal.small",
        "traits": ["CUSTOM_GOLD"],
        "links": [{"href": f"http://ironic.invalid/v1/nodes/{uuid}", "rel": "self"}],
    } | fields


def whole_json(uuid: str = NODE, **fields: Any) -> dict[str, Any]:
    """Return a node as JSON, with all fields of a GET of a single node."""
    texts = ("maintenance_reason", "reservation", "provision_updated_at", "shard", "owner")
    texts += ("lessee", "protected_reason", "deploy_interface", "storage_interface")
    flags = ("console_enabled", "retired", "protected", "disable_power_off")
    rest = dict.fromkeys((*texts, "instance_name")) | dict.fromkeys(flags, False)
    rest |= {"conductor_group": "", "instance_info": {}, "extra": {}}
    return node_json(uuid, **rest | fields)


def page(*nodes: Mapping[str, Any], next: str | None = None) -> Answer:  # noqa: A002
    """A page of nodes."""
    body: dict[str, Any] = {"nodes": list(nodes)}
    if next is not None:
        body["next"] = next
    return answer(200, body)


def fault(status: int, message: str, *, as_text: bool = True) -> Answer:
    """A refusal as Ironic words it.

    :param as_text: the fault as JSON within JSON, which is how 39.0.0 sends
        those of its controllers; else as an object.
    """
    inner = {"faultcode": "Client", "faultstring": message, "debuginfo": None}
    return answer(status, {"error_message": jsonlib.dumps(inner) if as_text else inner})


def locked(node: str = NODE) -> Answer:
    """The node's lock is held (text of Ironic 39.0.0)."""
    return fault(
        409,
        f"Node {node} is locked by host conductor-1, please retry after the current operation "
        "is completed.",
    )


def too_busy() -> Answer:
    """Nothing was done (text of Ironic 39.0.0)."""
    return fault(
        503, "Requested action cannot be performed due to lack of free conductor workers."
    )


def conductor_slow() -> Answer:
    """The conductor has not answered Ironic's API in time, and goes on."""
    return fault(500, "Timed out waiting for a reply to message ID 8d3a5cb1f8d7466d9a9fa3e1b4c0")


def no_such_node(node: str = NODE) -> Answer:
    """The node does not exist (text of Ironic 39.0.0)."""
    return fault(404, f"Node {node} could not be found.")


def lost() -> exceptions.IronicUnreachable:
    """The connection broke before an answer came."""
    return exceptions.IronicUnreachable("Connection reset by peer")
