# SPDX-License-Identifier: Apache-2.0

"""How long each step takes, and how many requests, as the servers' logs have them."""

import contextlib
import dataclasses
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

IRONIC, PLACEMENT = "ironic", "placement"
_REQUEST = {
    IRONIC: re.compile(r" INFO ironic\.api .* (GET|PUT|POST|PATCH|DELETE) /v1/"),
    PLACEMENT: re.compile(r" INFO placement\.requestlog .*\"(GET|PUT|POST|PATCH|DELETE) /"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """What a step took.

    :ivar seconds: wall time.
    :ivar requests: to Ironic and to Placement, of all services, but not those of the test.
    """

    step: str
    seconds: float
    requests: Counter[str]


class Steps:
    """Measures steps.

    :param logs: of Ironic and Placement.
    :param own: how many requests the test itself has sent so far.
    """

    def __init__(self) -> None:
        self.logs: dict[str, Path] = {}
        self.own: Counter[str] = Counter()
        self._taken: list[Figure] = []

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure what is done in the block."""
        before, began = self._requests(), time.monotonic()
        yield
        seconds = time.monotonic() - began
        self._taken.append(Figure(name, seconds, self._requests() - before))

    def _requests(self) -> Counter[str]:
        return Counter({name: self._logged(name) - self.own[name] for name in self.logs})

    def _logged(self, name: str) -> int:
        lines = self.logs[name].read_text(errors="replace").splitlines()
        return sum(1 for line in lines if _REQUEST[name].search(line))

    def table(self) -> Iterator[str]:
        """All figures, a step a line."""
        if not self._taken:
            return
        yield f"{'':42} {'wall time, s':>14} {'to Ironic':>10} {'to Placement':>13}"
        for figure in self._taken:
            counts = figure.requests
            yield (
                f"{figure.step:42} {figure.seconds:14.1f} {counts[IRONIC]:10d} "
                f"{counts[PLACEMENT]:13d}"
            )
