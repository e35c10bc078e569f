# SPDX-License-Identifier: Apache-2.0

"""Bodies as Ironic sees them before it looks at what is asked.

Some are refused: too large, or nested too deeply.  The limits are the defaults of Ironic's
``[api] max_json_body_*``.  Some are taken for arguments, such as those in a query.
"""

import json
import re
from typing import Final
from urllib.parse import parse_qsl

_KIB: Final = 1024
MAX_SIZE: Final = 1024 * _KIB
MAX_PROVISION_SIZE: Final = 64 * 1024 * _KIB
"""May hold a config drive."""
MAX_DEPTH: Final = 25

# A string as a whole, so that brackets in it do not count.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)

_REFUSAL = (
    '{{"faultcode": "Client", "faultstring": "Request body {}. Please contact the service'
    ' administrator."}}'
)


def _is_too_deep(body: bytes) -> bool:
    depth = 0
    for token in _TOKEN.finditer(body):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token[0] in (b"]", b"}"):
            depth -= 1
    return False


def refusal(path: str, content_type: str, body: bytes) -> tuple[int, bytes] | None:
    """The status and the body of the answer to a body that Ironic does not take."""
    if "json" not in content_type:
        return None
    is_provision = path.strip("/").endswith("states/provision")
    if len(body) > (MAX_PROVISION_SIZE if is_provision else MAX_SIZE):
        return 413, _REFUSAL.format("is too large").encode()
    if _is_too_deep(body):
        return 400, _REFUSAL.format("JSON is nested too deeply").encode()
    return None


def argument_names(method: str, query: str, content_type: str | None, body: bytes) -> list[str]:
    """The names of what Ironic's web framework takes for arguments, in the query and in a body.

    A body counts if nothing else reads it: that of a removal if it is an object, and that of a
    ``POST`` whose type is not named, as it may be a form.
    """
    names = dict(parse_qsl(query, keep_blank_values=True))
    if method == "POST" and content_type is None:
        names |= dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
    elif method == "DELETE" and (content_type or "").startswith("application/json"):
        try:
            values = json.loads(body or b"{}")
        except ValueError:
            values = {}
        names |= values if isinstance(values, dict) else {}
    return list(names)
