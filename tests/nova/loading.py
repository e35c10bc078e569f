# SPDX-License-Identifier: Apache-2.0

"""A program: which driver nova-compute loads by each of several configurations.

Its argument is a JSON object: for each name what stands after ``nova-compute`` on the command
line.  It prints another: for each name the driver's class, and what its loading complained of.

Nova is imported once.  Each configuration is read in its own fork, as the first one.
"""

import json
import logging
import os
import sys
from collections.abc import Sequence

from nova import config
from nova.virt import driver


class Complaints(logging.Handler):
    """Keeps the text of warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = f": {record.exc_info[1]}" if record.exc_info else ""
        self.lines.append(record.getMessage() + error)


def load(arguments: Sequence[str]) -> dict[str, object]:
    """Read a configuration as nova-compute does, and load the driver that it names."""
    complaints = Complaints()
    for name in ("ironic_virt", "nova.virt.driver"):
        logging.getLogger(name).addHandler(complaints)
    try:
        config.parse_args(["nova-compute", *arguments])
        loaded = type(driver.load_compute_driver(None))
    except (Exception, SystemExit) as exc:
        return {"driver": repr(exc), "complaints": complaints.lines}
    name = f"{loaded.__module__}.{loaded.__qualname__}"
    return {"driver": name, "complaints": complaints.lines}


def apart(arguments: Sequence[str]) -> dict[str, object]:
    """Do that in a fork."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writer, json.dumps(load(arguments)).encode())
        finally:
            # Nothing of the parent's is flushed or ended twice.
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        result = told.read()
    os.wait()
    return json.loads(result)


def main() -> None:
    """Load by all of them."""
    wanted = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps({name: apart(arguments) for name, arguments in wanted.items()}))


main()
