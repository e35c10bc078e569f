# SPDX-License-Identifier: Apache-2.0

"""Says where the two Ironics did not answer alike."""

import difflib
import json
from typing import Any

FAKE = "fake"
REAL = "real"


def readable(exchange: dict[str, Any]) -> list[str]:
    return json.dumps(exchange, indent=1, sort_keys=True, ensure_ascii=False).splitlines()


def differences(fake: list[dict[str, Any]], real: list[dict[str, Any]]) -> str:
    """A diff for each request that was not answered alike; empty if there is none.

    Where one stopped early because it failed the check, the rest is not compared.
    """
    lines: list[str] = []
    for ours, theirs in zip(fake, real, strict=False):
        if ours != theirs:
            # The fake is the one to be mended: a diff says what to change in it.
            context = difflib.unified_diff(
                readable(ours), readable(theirs), FAKE, REAL, n=1, lineterm=""
            )
            lines += [f"{theirs['request']}:", *context]
    return "\n".join(lines)
