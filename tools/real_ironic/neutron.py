# SPDX-License-Identifier: Apache-2.0

"""As much of Neutron as Nova and Ironic ask of it to attach VIFs to nodes' ports.

Every port id that is a UUID is a port, on the only network; other ids are not
found.  Nothing is checked, and no packet ever flows.  A port that has :data:`REFUSES`
refuses a change of the attribute that it names.
"""

import json
import re
import sys
import threading
import uuid
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, urlsplit

from tools.real_ironic.configuration import CLEANING_NETWORK

_PATH = re.compile(r"/v2\.0/(?P<kind>\w+)(?:/(?P<id>[^/]+))?(?:\.json)?")
REFUSES = "refuses"
Answer = tuple[HTTPStatus, dict[str, Any]]


class Network:
    """The ports.  Any thread may ask; the requests take turns.

    :ivar url: where all this is served.
    """

    def __init__(self) -> None:
        self.url = ""
        self._ports: dict[str, dict[str, Any]] = {}
        self._subnets: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def handle(self, method: str, target: str, body: dict[str, Any]) -> Answer:
        """Answer one request.

        :param target: path and query.
        :param body: the request's JSON; empty when it has none.
        """
        parts = urlsplit(target)
        match = _PATH.fullmatch(parts.path)
        if match is None:
            # All other requests only look for version 2.0.
            link = {"rel": "self", "href": f"{self.url}/v2.0/"}
            version = {"id": "v2.0", "status": "CURRENT", "links": [link]}
            return HTTPStatus.OK, {"versions": [version]}
        with self._lock:
            if match["kind"] == "ports":
                return self._port(method, match["id"], dict(parse_qsl(parts.query)), body)
            if match["kind"] == "networks":
                return self._network(match["id"])
            if match["kind"] == "subnets":
                return self._subnet(method, parse_qs(parts.query), body)
        return HTTPStatus.OK, {match["kind"]: []}

    def _subnet(self, method: str, query: dict[str, list[str]], body: dict[str, Any]) -> Answer:
        if method == "POST":
            subnet = {"id": str(uuid.uuid4()), "network_id": CLEANING_NETWORK, **body["subnet"]}
            self._subnets.append(subnet)
            return HTTPStatus.CREATED, {"subnet": subnet}
        wanted = query.get("id", ())
        return HTTPStatus.OK, {"subnets": [one for one in self._subnets if one["id"] in wanted]}

    def _network(self, network_id: str | None) -> Answer:
        network = {
            "id": CLEANING_NETWORK,
            "name": "stand-in",
            "tenant_id": "",
            "mtu": 1500,
            "subnets": [one["id"] for one in self._subnets],
        }
        if network_id is None:
            return HTTPStatus.OK, {"networks": [network]}
        if network_id == CLEANING_NETWORK:
            return HTTPStatus.OK, {"network": network}
        return _not_found("Network", network_id)

    def _port(
        self, method: str, port_id: str | None, query: dict[str, str], body: dict[str, Any]
    ) -> Answer:
        if port_id is None:
            if method == "POST":
                new_id = str(uuid.uuid4())
                self._ports[new_id] = dict(body["port"])
                return HTTPStatus.CREATED, {"port": self._view(new_id)}
            found = [
                view
                for view in map(self._view, list(self._ports))
                if all(str(view.get(name)) == value for name, value in query.items())
            ]
            return HTTPStatus.OK, {"ports": found}
        if not _is_uuid(port_id):
            return _not_found("Port", port_id)
        if method == "DELETE":
            self._ports.pop(port_id, None)
            return HTTPStatus.NO_CONTENT, {}
        if method == "PUT":
            refused = self._ports.get(port_id, {}).get(REFUSES)
            if refused is not None and refused in body["port"]:
                return _refused(port_id, refused)
            self._ports.setdefault(port_id, {}).update(body["port"])
        return HTTPStatus.OK, {"port": self._view(port_id)}

    def _view(self, port_id: str) -> dict[str, Any]:
        port: dict[str, Any] = {
            "id": port_id,
            "name": "",
            "mac_address": _address(port_id),
            "network_id": CLEANING_NETWORK,
            "binding:host_id": "",
            "binding:profile": {},
            "fixed_ips": [],
            "status": "ACTIVE",
            "admin_state_up": True,
            "binding:vnic_type": "baremetal",
        }
        return port | self._ports.get(port_id, {})


def _address(port_id: str) -> str:
    """A port's MAC address until it is given one: Neutron's prefix, and of the port's own."""
    digits = uuid.uuid5(uuid.NAMESPACE_OID, port_id).hex
    return ":".join(("fa:16:3e", digits[:2], digits[2:4], digits[4:6]))


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _not_found(kind: str, resource_id: str) -> Answer:
    message = f"{kind} {resource_id} could not be found."
    error = {"type": f"{kind}NotFound", "message": message, "detail": ""}
    return HTTPStatus.NOT_FOUND, {"NeutronError": error}


def _refused(port_id: str, attribute: str) -> Answer:
    message = f"Port {port_id} does not take {attribute}."
    error = {"type": "Conflict", "message": message, "detail": ""}
    return HTTPStatus.CONFLICT, {"NeutronError": error}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet when a client, which may have been killed, has gone away."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class StandInNeutron:
    """A context manager that serves a :class:`Network` on a free port of 127.0.0.1."""

    def __init__(self) -> None:
        network = Network()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                status, answer = network.handle(self.command, self.path, body)
                payload = b"" if status is HTTPStatus.NO_CONTENT else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            do_GET = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815 (http.server's names)

            def log_message(self, *args: object) -> None:
                """Keep quiet: what Ironic asks is in Ironic's log."""

        self._server = _Server(("127.0.0.1", 0), Handler)
        network.url = self.url
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
