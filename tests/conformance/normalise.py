# SPDX-License-Identifier: Apache-2.0

"""Makes what two servers answered comparable.

What differs by nature is replaced by a placeholder: identifiers, by the order
in which they turn up, so that it still shows which are the same; times; the
server's own address; durations; what a conductor notes down for itself; the
order of names that come out of a set.  Left out is what the fake does not have
from the list of resources, and nothing else.
"""

import re
from typing import Any

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# Names out of a set come in another order each time that a server starts.
_NAMES = re.compile(r"\((\w+(?:, \w+)+)\)")
# Whoever has it has the console.
_TOKEN = re.compile(r"(?<=token%3D)[\w-]+")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?")

# Private notes of the conductor and the driver, without a meaning for clients.
_NOTES = "driver_internal_info"
# How long something took in whole seconds: a busy machine takes longer.
_DURATION = "duration_seconds"

# Resources of Ironic that the fake does not have, and so does not name in ``/v1``.
_NOT_OFFERED = frozenset(
    {
        *("continue_inspection", "deploy_templates", "events", "heartbeat", "inspection_rules"),
        *("lookup", "runbooks"),
    }
)

LEFT_OUT_HEADERS = frozenset(
    {
        # Which program serves HTTP, when, and how it frames bodies and connections.
        *("date", "server", "connection", "content-length", "transfer-encoding", "keep-alive"),
        # Which methods the web framework thinks a controller has: as often wrong as right.
        "allow",
    }
)


class Normaliser:
    """Replaces identifiers consistently over all that one check sees.

    :param url: the server's address.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._uuids: dict[str, str] = {}

    def text(self, text: str) -> str:
        text = text.replace(self._url, "<url>")
        text = _TOKEN.sub("<token>", text)
        text = _UUID.sub(self._placeholder, text)
        text = _NAMES.sub(lambda match: f"({', '.join(sorted(match[1].split(', ')))})", text)
        return _TIME.sub("<time>", text)

    def value(self, value: Any) -> Any:
        """A JSON value, with all strings in it normalised, names of members too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            left_out = _NOT_OFFERED if "media_types" in value else ()
            return {
                self.text(name): self._member(name, item)
                # The order of members means nothing, so it may not decide on placeholders.
                for name, item in sorted(value.items())
                if name not in left_out
            }
        return value

    def _member(self, name: str, item: Any) -> Any:
        if name == _NOTES and isinstance(item, dict):
            return "<notes>"
        if name == _DURATION and type(item) is int and item >= 0:
            return "<seconds>"
        return self.value(item)

    def headers(self, headers: Any) -> dict[str, str]:
        return {
            name.lower(): self.text(value)
            for name, value in sorted(headers.items())
            if name.lower() not in LEFT_OUT_HEADERS
        }

    def _placeholder(self, match: re.Match[str]) -> str:
        return self._uuids.setdefault(match[0], f"<uuid {len(self._uuids) + 1}>")
