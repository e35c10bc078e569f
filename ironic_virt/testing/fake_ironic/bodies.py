# SPDX-License-Identifier: Apache-2.0

"""Bodies that Ironic refuses before it looks at what is asked: too large, or nested too deeply.

The limits are the defaults of Ironic's ``[api] max_json_body_*``.
"""

import re
from typing import Final

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
