# SPDX-License-Identifier: Apache-2.0

"""Serve a WSGI application on 127.0.0.1: ``serve_wsgi.py MODULE PORT USER``.

The module has it as ``application``.  Every request is from that user, who is an admin of
a project of the same name; in production Keystone says so.
"""

import importlib
import sys
from collections.abc import Iterable
from typing import Any

from cheroot import wsgi

_FORMERLY = {
    "nova.wsgi.osapi_compute": "nova.api.openstack.compute.wsgi",
    "placement.wsgi.api": "placement.wsgi",
}
"""Where a function makes the application, in releases that lack the module."""
_THREADS = 16
_QUEUE = 100
# By default it ends a connection after 10 s, the period in which nova-compute uses its own: now
# and then just when the next request comes.
_IDLE_SECONDS = 600


def main(module: str, port: str, user: str) -> None:
    # An application takes the program's arguments for its own.
    del sys.argv[1:]
    try:
        application = importlib.import_module(module).application
    except ModuleNotFoundError:
        application = importlib.import_module(_FORMERLY[module]).init_application()

    def known(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        environ |= {
            "HTTP_X_AUTH_TOKEN": user,
            "HTTP_X_USER_ID": user,
            "HTTP_X_USER_NAME": user,
            "HTTP_X_PROJECT_ID": user,
            "HTTP_X_PROJECT_NAME": user,
            "HTTP_X_ROLES": "admin,member,reader,service",
        }
        return application(environ, start_response)

    wsgi.Server(
        ("127.0.0.1", int(port)),
        known,
        numthreads=_THREADS,
        request_queue_size=_QUEUE,
        timeout=_IDLE_SECONDS,
    ).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
