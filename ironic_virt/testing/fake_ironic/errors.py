# SPDX-License-Identifier: Apache-2.0

"""Errors as Ironic answers them.

Ironic has two shapes, both packed as a string into ``error_message``: its own
(``faultcode``, ``faultstring``, ``debuginfo``) for what its controllers raise,
and its web framework's (``code``, ``title``, ``description``) for what never
reaches a controller, such as an unknown URL or an unacceptable API version.
"""

import http
import json
from typing import Any


class ApiError(Exception):
    """An error raised by a handler: Ironic's own shape."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    def body(self) -> bytes:
        fault = {
            "faultcode": "Client" if 400 <= self.status < 500 else "Server",
            "faultstring": self.message,
            "debuginfo": None,
        }
        return json.dumps({"error_message": json.dumps(fault)}).encode()


class RoutingError(ApiError):
    """An error from below the handlers: the web framework's shape.

    :param keeps_headers: whether the answer tells API versions in its headers.
    :param allow: with 405, the methods that are allowed.
    """

    def __init__(
        self,
        status: int,
        message: str = "",
        keeps_headers: bool = False,
        allow: list[str] | None = None,
    ) -> None:
        super().__init__(status, message)
        self.keeps_headers = keeps_headers
        self.allow = allow

    def body(self) -> bytes:
        fault = {
            "code": self.status,
            "title": http.HTTPStatus(self.status).phrase,
            "description": self.message,
        }
        return json.dumps({"error_message": json.dumps(fault)}).encode()


def injected_body(status: int, body: Any) -> bytes:
    """The body of an error that a test wants.

    :param body: text of an error in Ironic's shape, or JSON, or bytes; ``None``: any text.
    """
    if body is None or isinstance(body, str):
        return ApiError(status, body or f"Injected error {status}").body()
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def invalid(message: str) -> ApiError:
    return ApiError(400, message)


def conflict(message: str) -> ApiError:
    return ApiError(409, message)


def not_found(message: str = "Resource could not be found.") -> ApiError:
    return ApiError(404, message)


def not_acceptable(message: str = "Request not acceptable.") -> ApiError:
    return ApiError(406, message)


def needs_version(minor: int) -> ApiError:
    return not_acceptable(
        f"Request not acceptable. The minimal required API version should be 1.{minor}"
    )


def node_not_found(ident: object, status: int = 404) -> ApiError:
    return ApiError(status, f"Node {ident} could not be found.")


def node_locked(uuid: str, host: str) -> ApiError:
    return conflict(
        f"Node {uuid} is locked by host {host}, please retry after the current operation is"
        " completed."
    )


def vif_refused(vif: str, uuid: str, reason: str, *, active: bool) -> ApiError:
    if active:
        failure, issue = f"Could not add public network VIF {vif} ", "network"
    else:
        # Without a blank behind the VIF, as Ironic has it.
        failure = f"Could not seed network configuration for VIF {vif}"
        issue = "network, state, or access permission"
    return ApiError(500, f"{failure}to node {uuid}, possible {issue} issue. {reason}")


def node_protected(uuid: str) -> ApiError:
    return ApiError(403, f"Node {uuid} is protected and cannot be undeployed, rebuilt or deleted")


def node_associated(uuid: str, instance: str | None) -> ApiError:
    return conflict(f"Node {uuid} is associated with instance {instance}.")


def instance_associated(instance: str, uuid: str) -> ApiError:
    return conflict(
        f"Instance {instance} is already associated with a node, it cannot be associated with"
        f" this other node {uuid}"
    )


def state_not_allowed(action: str, ident: str, state: str | None) -> ApiError:
    return invalid(
        f'The requested action "{action}" can not be performed on node "{ident}" while it is in'
        f' state "{state}".'
    )


def in_maintenance(operation: str, uuid: str) -> ApiError:
    return invalid(
        f"The {operation} operation can't be performed on node {uuid} because it's in"
        " maintenance mode."
    )
