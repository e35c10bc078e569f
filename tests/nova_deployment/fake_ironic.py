# SPDX-License-Identifier: Apache-2.0

"""The fake Ironic as a process, for more nodes than a real one can have in a test."""

import sys
from pathlib import Path
from typing import Any, Self

from tests.nova_deployment.processes import Program, listens, wait_for
from tools.real_ironic.ports import free_port


class FakeIronicProcess:
    """A context manager that runs it, with free nodes; nothing takes it any time.

    :param directory: for its log.
    :ivar process: what runs.
    """

    def __init__(self, directory: Path, nodes: int, resource_class: str) -> None:
        self._port = free_port()
        program = [sys.executable, "-m", "ironic_virt.cmd.fake_ironic", "--quiet"]
        options = {
            "port": self._port,
            "nodes": nodes,
            "resource-class": resource_class,
            "threads": 32,
        }
        for name, value in options.items():
            program += [f"--{name}", str(value)]
        self.process = Program(
            "fake-ironic", program, directory=directory / "fake-ironic", logs=directory
        )

    @property
    def url(self) -> str:
        """The API's root, without a slash at the end and without a version."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.process.start()

        def up() -> bool:
            self.process.see_to_it()
            return listens(self._port)

        wait_for("the fake Ironic", up)
        return self

    def __exit__(self, *exc: Any) -> None:
        self.process.stop()
