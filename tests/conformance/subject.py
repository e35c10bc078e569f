# SPDX-License-Identifier: Apache-2.0

"""An Ironic as a check sees it: plain HTTP, and a few ways to prepare nodes.

Requests that a check makes are recorded; those that prepare or wait are not.
"""

import contextlib
import itertools
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import requests

from tests.conformance.normalise import Normaliser

NEWEST = "newest"
"""The newest version of the API that this Ironic speaks."""
ANY = -1
"""Any status: only the comparison of the two answers matters."""
VERSION_HEADER = "X-OpenStack-Ironic-API-Version"
IMAGE = {"image_source": "http://images/image", "image_checksum": "0" * 32}

_REQUEST_SECONDS = 60.0
_SETTLE_SECONDS = 120.0
# Of a body that is sent as it is, in bytes.
_RECORDED = 1000
_SUCCESS = range(200, 300)
_SETTLING = "reservation,target_power_state,provision_state,target_provision_state"
# In these a node waits for somebody else, with nobody working on it.
_WAITING = ("wait call-back", "clean wait", "rescue wait", "inspect wait", "service wait")
_HELD = ("deploy hold", "clean hold", "service hold")


class Subject(Protocol):
    """One of the two Ironics, with what only its own side can do."""

    @property
    def url(self) -> str:
        """The API's root, without a slash at the end."""

    @property
    def newest(self) -> str:
        """The newest version of the API that it speaks."""

    @property
    def runs_programs(self) -> bool:
        """Whether it needs the programs of a conductor's machine, socat for one."""

    def reset(self) -> None:
        """Forget all nodes and everything that belongs to them."""

    def set_node(self, node: str, values: Mapping[str, Any]) -> None:
        """Change a node behind the API's back, by the names of its fields."""

    def kept_instance_info(self, node: str) -> Mapping[str, Any]:
        """The ``instance_info`` of a node as it is kept, with what is hidden from the API."""

    def fail(self, node: str, operation: str, error: str) -> None:
        """Let the node's hardware fail the next time that this is done to it."""

    def refuse_vif(self, vif: str) -> None:
        """Let Neutron refuse to connect a VIF from now on."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def held_hardware(self) -> contextlib.AbstractContextManager[None]:
        """Let slow hardware go on with what it is doing until the block ends."""

    def wait_for_hardware(self) -> None:
        """Return when it has begun with a request of such a block."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; ``body`` is the decoded JSON, or text if it is none."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def fault(self) -> str:
        """The message of Ironic's error JSON."""
        error = json.loads(self.body["error_message"])
        message: str = error.get("faultstring") or error.get("description")
        return message


@dataclass(slots=True)
class Recorder:
    """All that one check asked and was answered, normalised."""

    normaliser: Normaliser
    exchanges: list[dict[str, Any]] = field(default_factory=list)
    paused: bool = False

    def add(self, method: str, path: str, version: str | None, sent: Any, answer: Answer) -> None:
        if self.paused:
            return
        clean = self.normaliser
        body = clean.value(answer.body)
        if isinstance(body, dict) and isinstance(body.get("error_message"), str):
            # JSON inside JSON: as text, a difference would be one long line.
            with contextlib.suppress(ValueError):
                body = body | {"error_message": json.loads(body["error_message"])}
        self.exchanges.append(
            {
                "request": clean.text(f"{method} {path} at {version}"),
                "sent": clean.value(sent),
                "status": answer.status,
                "headers": dict(sorted(clean.headers(answer.headers).items())),
                "body": body,
            }
        )


class IronicUnderTest:
    """What a check is given; one for each check and subject."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._session = requests.Session()
        self._numbers = itertools.count(1)
        self.recorder = Recorder(Normaliser(subject.url))
        self.runs_programs = subject.runs_programs
        subject.reset()

    # Asking

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: str | None = NEWEST,
        expect: int | None = None,
        raw: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Answer:
        """Send a request and record it with its answer.

        :param version: of the API, :data:`NEWEST` for instance; None sends no such header.
        :param expect: the status that must come back; any success when None.
        :param raw: a body that is sent as it is, in chunks if it comes so, instead of ``body``.
        :param headers: what to send in addition to the version; None leaves out a header.
        """
        if version == NEWEST:
            version = self._subject.newest
        all_headers: dict[str, str | None] = {} if version is None else {VERSION_HEADER: version}
        content = {"json": body} if raw is None else {"data": raw}
        if raw is not None:
            all_headers["Content-Type"] = "application/json"
        response = self._session.request(
            method,
            f"{self._subject.url}{path}",
            headers=all_headers | dict(headers or {}),
            timeout=_REQUEST_SECONDS,
            allow_redirects=False,
            **content,  # type: ignore[arg-type]
        )
        answer = Answer(response.status_code, response.headers, _decode(response))
        sent = raw[:_RECORDED].decode(errors="replace") if isinstance(raw, bytes) else body
        self.recorder.add(method, path, version, sent, answer)
        wanted = expect == ANY or (
            answer.status in _SUCCESS if expect is None else answer.status == expect
        )
        assert wanted, (
            f"{method} {path} at {version} with {sent!r} was answered {answer.status},"
            f" not {expect or 'with success'}: {answer.body}"
        )
        return answer

    def get(self, path: str, **options: Any) -> Answer:
        return self.request("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.request("POST", path, body, **options)

    def put(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.request("PUT", path, body, **options)

    def delete(self, path: str, **options: Any) -> Answer:
        return self.request("DELETE", path, **options)

    def patch(self, path: str, *operations: Mapping[str, Any], **options: Any) -> Answer:
        return self.request("PATCH", path, list(operations), **options)

    # The same of several things, each in its own request

    def get_each(self, path: str, *ends: str, **options: Any) -> None:
        for end in ends:
            self.get(f"{path}{end}", **options)

    def post_each(self, path: str, *bodies: Any, **options: Any) -> None:
        for body in bodies:
            self.post(path, body, **options)

    def put_each(self, path: str, *bodies: Any, **options: Any) -> None:
        for body in bodies:
            self.put(path, body, **options)

    def patch_each(self, path: str, *operations: Mapping[str, Any], **options: Any) -> None:
        for operation in operations:
            self.patch(path, operation, **options)

    @contextlib.contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Prepare something: the requests in this block are not compared."""
        before, self.recorder.paused = self.recorder.paused, True
        try:
            yield
        finally:
            self.recorder.paused = before

    # Preparing

    def uuid(self) -> str:
        """A new UUID; the same ones in the same order for both Ironics."""
        return str(uuid.UUID(int=next(self._numbers) << 80, version=4))

    def node(self, *, powered: bool = True, traits: list[str] | None = None, **fields: Any) -> str:
        """Make a node that is available and powered off; return its UUID.

        :param powered: False leaves its power state unknown.
        :param fields: of the node, by their names in the API.
        """
        node = self.uuid()
        with self.unrecorded():
            self.post("/v1/nodes", {"uuid": node, "driver": "fake-hardware"}, version="1.10")
            if fields:
                self.patch(
                    f"/v1/nodes/{node}",
                    *(
                        {"op": "add", "path": f"/{name}", "value": value}
                        for name, value in fields.items()
                    ),
                )
            if traits:
                self.put(f"/v1/nodes/{node}/traits", {"traits": traits})
            if powered:
                self.set_node(node, power_state="power off")
        return node

    def set_node(self, node: str, **values: Any) -> None:
        """Change a node behind the API's back."""
        self._subject.set_node(node, values)

    def kept_instance_info(self, node: str) -> Mapping[str, Any]:
        """The node's ``instance_info`` with what no answer shows."""
        return self._subject.kept_instance_info(node)

    def node_with(self, **values: Any) -> str:
        """Make a node, and change it behind the API's back; return its UUID."""
        node = self.node()
        self.set_node(node, **values)
        return node

    def fail(self, node: str, operation: str, error: str) -> None:
        """Let the node's hardware fail: ``deploy``, ``undeploy``, ``rescue``, ..."""
        self._subject.fail(node, operation, error)

    def refuse_vif(self, vif: str) -> None:
        """Let Neutron refuse to connect a VIF, in later checks too."""
        self._subject.refuse_vif(vif)

    def port(self, node: str, address: str = "02:00:00:00:00:01", **fields: Any) -> str:
        """Add a port to a node; return its UUID."""
        port = self.uuid()
        with self.unrecorded():
            self.post("/v1/ports", {"uuid": port, "node_uuid": node, "address": address, **fields})
        return port

    def active_node(self, **fields: Any) -> str:
        """Make a node with an instance on it; return its UUID."""
        fields.setdefault("instance_info", IMAGE)
        node = self.node(**fields)
        with self.unrecorded():
            self.provision(node, "active")
        return node

    # Doing and waiting

    def provision(self, node: str, target: str, **options: Any) -> Answer:
        """Ask for a provision state, and wait until the node has settled.

        :param options: as for :meth:`request`; others go into the body.
        """
        names = ("version", "expect", "headers")
        request = {name: options.pop(name) for name in names if name in options}
        answer = self.put(
            f"/v1/nodes/{node}/states/provision", {"target": target, **options}, **request
        )
        self.settle(node)
        return answer

    def settle(self, node: str) -> None:
        """Wait until nobody works on the node."""
        with self.unrecorded():
            waited = 0.0
            while True:
                body: dict[str, Any] = self.get(f"/v1/nodes/{node}?fields={_SETTLING}").body
                if _is_settled(body):
                    return
                assert waited < _SETTLE_SECONDS, f"the node did not settle: {body}"
                pause = min(0.01 + waited / 10, 0.25)
                self._subject.wait(pause)
                waited += pause

    def held_hardware(self) -> contextlib.AbstractContextManager[None]:
        """Make slow hardware work on the requests of this block until the block ends."""
        return self._subject.held_hardware()

    def wait_for_hardware(self) -> None:
        """Wait until it has begun with it."""
        self._subject.wait_for_hardware()

    def wait_for_allocation(self, allocation: str) -> dict[str, Any]:
        """Wait until an allocation has been decided upon; return it, not recorded."""
        with self.unrecorded():
            waited = 0.0
            while True:
                body: dict[str, Any] = self.get(f"/v1/allocations/{allocation}").body
                if body["state"] != "allocating":
                    return body
                assert waited < _SETTLE_SECONDS, f"the allocation was not decided: {body}"
                self._subject.wait(0.02)
                waited += 0.02


def _is_settled(node: Mapping[str, Any]) -> bool:
    if node["reservation"] is not None or node["target_power_state"] is not None:
        return False
    state = node["provision_state"]
    # A failed node keeps its target, to say what was wanted of it.
    at_rest = state in _WAITING or state in _HELD or state.endswith(("failed", "error"))
    return node["target_provision_state"] is None or at_rest


def _decode(response: requests.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return response.text
