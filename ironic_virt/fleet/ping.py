# SPDX-License-Identifier: Apache-2.0

"""Asks a nova-compute over Nova's RPC whether it is running.

Its silence means something only if a conductor of its cell answers.
"""

from __future__ import annotations

import threading
from typing import Any

import oslo_messaging as messaging
from nova import rpc

from ironic_virt.fleet.cells import Cell

SECONDS = 10.0
"""How long an answer may take."""
_SPARE = 5.0
"""Seconds more, after which a library that reconnects without end is left alone."""


def ask(cell: Cell, host: str) -> bool | None:
    """Whether the nova-compute of a host answers; ``None``: unknown, as no conductor answers."""
    return _is_answered(cell, "compute", server=host) if _is_answered(cell, "conductor") else None


def _is_answered(cell: Cell, topic: str, **target_host: str) -> bool | None:
    target = messaging.Target(topic=topic, namespace="baseapi", version="1.0")
    answers: list[bool | None] = []

    def call() -> None:
        try:
            client = messaging.get_rpc_client(
                cell.context.mq_connection or rpc.TRANSPORT,
                target,
                serializer=rpc.RequestContextSerializer(None),
            )
            prepared: Any = client.prepare(timeout=SECONDS, retry=1, **target_host)
            prepared.call(cell.context, "ping", arg="ironic-virt-fleet")
            answers.append(True)
        except (messaging.MessagingTimeout, messaging.MessageUndeliverable):
            answers.append(False)
        except messaging.RemoteError:
            answers.append(True)
        except Exception:
            # Without a broker that takes the call, nobody knows who would have answered.
            answers.append(None)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(SECONDS + _SPARE)
    return answers[0] if answers else None
