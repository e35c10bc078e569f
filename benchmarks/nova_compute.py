# SPDX-License-Identifier: Apache-2.0

"""nova-compute, which notes what each of its resource periods costs.

``nova_compute.py FIGURES OTHERS ARGUMENT...``: the arguments are nova-compute's.  FIGURES gets
a line of JSON when a period begins, and one when it has ended.  OTHERS names programs of the
same machine, each with its processes' ids: what processor time they use is noted, too.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

COUNTED = ("placement_requests", "database_queries")
"""The latter are calls to the conductor: everything that nova-compute asks of the database."""
_TICKS = os.sysconf("SC_CLK_TCK")


def used(pids: list[int]) -> float:
    """The seconds of processor time that processes have used (Linux)."""
    total = 0
    for pid in pids:
        # The name may have spaces in it.
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


class Watch:
    """Counts what the process asks, and notes periods.

    :param figures, others: see the module.
    """

    def __init__(self, figures: pathlib.Path, others: pathlib.Path) -> None:
        self._figures, self._others = figures, others
        self._counts: Counter[str] = Counter()

    def counted(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """A function whose calls are counted under a name."""

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self._counts[name] += 1
            return function(*args, **kwargs)

        return counted

    def noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls are periods."""

        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            self._note({"step": "begin"})
            others = json.loads(self._others.read_text())
            before = {name: used(pids) for name, pids in others.items()}
            counts = self._counts.copy()
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                figures = {
                    "wall": time.perf_counter() - wall,
                    "cpu": time.process_time() - cpu,
                }
                figures |= {name: self._counts[name] - counts[name] for name in COUNTED}
                figures |= {f"{one}_cpu": used(others[one]) - then for one, then in before.items()}
                self._note({"step": "end", "figures": figures})

        return noted

    def _note(self, content: dict[str, Any]) -> None:
        with self._figures.open("a") as file:
            print(json.dumps(content), file=file)


def main(figures: str, others: str, *arguments: str) -> int:
    """Run it."""
    # Nova sees to its threads when this is imported.
    from nova.cmd import compute

    # isort: split
    import requests
    from nova.compute import manager
    from nova.conductor import rpcapi
    from nova.conf import CONF

    watch = Watch(pathlib.Path(figures), pathlib.Path(others))
    session: Any = requests.Session
    send = session.send
    to_placement = watch.counted(send, COUNTED[0])

    def sent(session: Any, request: Any, **kwargs: Any) -> Any:
        asked = request.url.startswith(CONF.placement.endpoint_override)
        return (to_placement if asked else send)(session, request, **kwargs)

    session.send = sent
    for name in ("object_class_action_versions", "object_action"):
        call = watch.counted(getattr(rpcapi.ConductorAPI, name), COUNTED[1])
        setattr(rpcapi.ConductorAPI, name, call)
    period = manager.ComputeManager.update_available_resource
    noted = watch.noted(period)
    # What oslo.service has noted of it.
    tasks = manager.ComputeManager._periodic_tasks
    tasks[:] = [(name, noted if task is period else task) for name, task in tasks]
    sys.argv = ["nova-compute", *arguments]
    status: int | None = compute.main()
    return status or 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
