# SPDX-License-Identifier: Apache-2.0

"""A RabbitMQ for one deployment alone, or the one that the user names.

A broker that runs already is left in peace: a virtual host on it takes its administrator,
and in its default one the queues of any other Nova have the same names.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.nova_deployment.processes import Program, listens, wait_for
from tools.real_ironic.ports import free_port

VARIABLE = "IRONIC_VIRT_RABBITMQ_URL"
USER = "guest"

# Debian's program in PATH runs only for root and rabbitmq, and as a service.
_SERVERS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
_ERLANG = ("epmd", "/usr/lib/erlang/bin/epmd")


class NoBroker(Exception):
    """There is no RabbitMQ and none can be started."""


@contextlib.contextmanager
def broker(logs: Path, variables: Mapping[str, str] = os.environ) -> Iterator[str]:
    """A RabbitMQ with nothing in it.

    :param logs: where its log goes.
    :returns: its URL, as oslo.messaging wants it.
    :raises NoBroker: it is not installed.
    """
    if url := variables.get(VARIABLE):
        yield url
        return
    server, epmd = _program(_SERVERS), _program(_ERLANG)
    if server is None or epmd is None:
        raise NoBroker(
            "This needs RabbitMQ, and none is installed that could be started for these tests "
            "alone. Either install one (apt-get install rabbitmq-server), or name one whose "
            f"virtual host is for these tests: {VARIABLE}=rabbit://user:password@host:5672/vhost"
        )
    with contextlib.ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="ironic-virt-rabbitmq-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        names, port, between = (free_port() for _ in range(3))
        # Erlang would start this in the background, and leave it there.
        variables = {"ERL_EPMD_PORT": str(names), "ERL_EPMD_ADDRESS": "127.0.0.1"}
        registry = Program(
            "epmd", [epmd], directory=directory / "epmd", logs=logs, variables=variables
        )
        registry.start()
        stack.callback(registry.stop)
        wait_for("epmd", lambda: listens(names))
        state = directory / "rabbitmq"
        variables |= {
            # For the secret that Erlang's nodes share.
            "HOME": str(state),
            "RABBITMQ_NODENAME": f"ironic-virt-{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(between),
            "RABBITMQ_MNESIA_BASE": str(state / "data"),
            "RABBITMQ_LOG_BASE": str(state),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": str(state / "pid"),
            # Those of the system are not ours.
            "RABBITMQ_CONFIG_FILE": str(state / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": str(state / "rabbitmq-env.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(state / "enabled_plugins"),
        }
        program = Program("rabbitmq", [server], directory=state, logs=logs, variables=variables)
        program.start()
        stack.callback(program.stop)

        def up() -> bool:
            program.see_to_it()
            return "Server startup complete" in program.text()

        wait_for("RabbitMQ", up)
        yield f"rabbit://{USER}:{USER}@127.0.0.1:{port}/"


def _program(names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)
