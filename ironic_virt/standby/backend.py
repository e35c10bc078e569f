# SPDX-License-Identifier: Apache-2.0

"""The lock of a lease in etcd, in Redis or in a file, by tooz.

What tooz's locks do, as read in its releases 6.2 to 8.1, and seen:

* Redis: ``heartbeat`` sets the time to live again in a script that compares the token, and
  raises an error when the key is gone or another's.
* etcd: ``heartbeat`` succeeds also for a lease that has expired, and for a key that somebody
  has deleted.  So the key is read afterwards.
* File: a POSIX lock, which has no time to live.  It ends with its process.
* None of them can be asked how long a lock lives still; etcd and Redis can.

MySQL and PostgreSQL have locks of a connection: the server gives one to the next process as
soon as the connection breaks, which its holder need not notice, and keeps the lock of a process
that hangs.  They are refused, and so is all else.

:class:`ToozLock` is for one thread at a time.
"""

from __future__ import annotations

import base64
import os
import socket
import threading
import urllib.parse
import uuid
from concurrent import futures
from typing import Any, NamedTuple

from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.standby.etcd import Members
from ironic_virt.standby.lease import Lease
from ironic_virt.standby.note import Note, load
from ironic_virt.standby.timing import Timing

LOG = logging.getLogger(__name__)

OPTION = "[ironic] standby_backend_url"

_ETCD = ("etcd3+http", "etcd3+https")
SCHEMES = (*_ETCD, "redis", "file")

ANSWER_SECONDS = 10.0
"""For a look at a lease."""


def from_conf(conf: cfg.ConfigOpts) -> Lease:
    """The lease that the options name.  Nothing is sent yet.

    :raises InvalidConfiguration: the backend can't hold a lease, or its packages are missing.
    """
    url = conf.ironic.standby_backend_url
    scheme = urllib.parse.urlsplit(url).scheme
    timing = Timing.of(scheme, conf.ironic.standby_ttl)
    return Lease(ToozLock(url, timing, conf.ironic.standby_namespace), timing)


class Look(NamedTuple):
    """A lease, as a process without a part in it sees it.

    :ivar age: seconds since it was renewed; ``None``: no process is active.
    :ivar notes: what processes say of themselves, the active one first.  One that has ended says
        it for some seconds more, and one of an older release says nothing.
    """

    age: float | None
    notes: list[Note]


def look(
    url: str, ttl: int, host: str, namespace: str = "", *, seconds: float = ANSWER_SECONDS
) -> Look:
    """Look at the lease of a host name.

    :param ttl: ``[ironic] standby_ttl``.
    :param namespace: ``[ironic] standby_namespace``.
    :param seconds: how long to wait for the answer; tooz may try a Redis for minutes.
    :raises InvalidConfiguration: the backend can't hold a lease, or its packages are missing.
    :raises StandbyBackendFailed: it gives no answer, or is a file.
    """
    timing = Timing.of(urllib.parse.urlsplit(url).scheme, ttl)
    asked = futures.Future[Look]()

    def ask() -> None:
        try:
            lock = ToozLock(url, timing, namespace)
            left = lock.remaining(host)
            age = None if left is None else max(0.0, timing.lock - left)
            asked.set_result(Look(age, lock.notes(host)))
            lock.stop()
        except Exception as exc:
            asked.set_exception(exc)

    threading.Thread(target=ask, name="ironic-virt-lease-look", daemon=True).start()
    try:
        return asked.result(seconds)
    except TimeoutError:
        raise exceptions.StandbyBackendFailed(f"no answer within {seconds:.0f} s") from None


def age(url: str, ttl: int, host: str, *, seconds: float = ANSWER_SECONDS) -> float | None:
    """See :attr:`Look.age`."""
    return look(url, ttl, host, seconds=seconds).age


class ToozLock:
    """See :class:`~ironic_virt.standby.lease.Lock`.

    :param url: tooz's; its ``timeout`` and ``lock_timeout`` are set here.
    :param namespace: part of the names of locks; see ``[ironic] standby_namespace``.
    :raises InvalidConfiguration: as above.
    """

    def __init__(self, url: str, timing: Timing, namespace: str = "") -> None:
        self._prefix = f"ironic-virt-{namespace}:" if namespace else "ironic-virt-"
        self._member = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4()}"
        self._scheme = urllib.parse.urlsplit(url).scheme
        if self._scheme not in SCHEMES:
            raise exceptions.InvalidConfiguration(
                OPTION,
                f"{self._scheme or 'a URL without a scheme'} can't hold a lease: its locks have "
                "no time to live, or are not known to be safe. Use one of " + ", ".join(SCHEMES),
            )
        self._url = url
        self._timing = timing
        self._members = Members(url) if self._scheme in _ETCD else None
        self._coordinator = self._made()
        self._started = False
        self._lock: Any = None

    def _made(self) -> Any:
        count = len(self._members) if self._members else 1
        try:
            from tooz import coordination

            made: Any = coordination.get_coordinator(
                self._members.url if self._members else self._url,
                self._member.encode(),
                timeout=str(max(1, int(self._timing.valid / 2 / count))),
                lock_timeout=str(self._timing.lock),
            )
            if self._members:
                self._members.log_in(made.client)
            return made
        except Exception as exc:
            raise exceptions.InvalidConfiguration(
                OPTION,
                f"tooz can't use it ({logs.one_line(str(exc))}). The packages that it needs "
                "come with ironic-virt's extra 'standby'",
            ) from exc

    def acquire(self, host: str) -> bool:
        """See :class:`~ironic_virt.standby.lease.Lock`."""
        try:
            if not self._started:
                # One that could not be started can't be started again.
                self._coordinator = self._made()
                self._coordinator.start()
                self._check_replicas()
                self._started = True
            self._lock = self._lock_of(host)
            if self._members and self._tokens_in_etcd():
                # To try costs etcd two writes.
                return False
            return bool(self._lock.acquire(blocking=False))
        except exceptions.InvalidConfiguration:
            raise
        except Exception as exc:
            raise self._failed(exc) from exc

    def renew(self) -> bool:
        """See :class:`~ironic_virt.standby.lease.Lock`."""
        from tooz import coordination

        try:
            if self._members:
                # Neither name is public in tooz, and nothing else says whose the key is.
                token = base64.b64decode(self._lock._uuid)
                return bool(self._lock.heartbeat()) and token in self._tokens_in_etcd()
            if self._scheme == "file":
                return bool(self._lock.acquired)
            return bool(self._lock.heartbeat())
        except coordination.ToozConnectionError as exc:
            raise self._failed(exc) from exc
        except Exception as exc:
            if self._is_not_ours():
                return False
            raise self._failed(exc) from exc

    def release(self) -> None:
        """See :class:`~ironic_virt.standby.lease.Lock`."""
        try:
            self._lock.release()
        except Exception as exc:
            raise self._failed(exc) from exc

    def remaining(self, host: str) -> float | None:
        """How long the lock of a host name still lives, whichever process has it; takes nothing.

        :returns: seconds; ``None``: nobody has it.
        :raises StandbyBackendFailed: the backend gives no answer, or is a file, which has none.
        """
        for others in reversed(range(len(self._members) if self._members else 1)):
            try:
                if self._members:
                    left = self._seconds_in_etcd(self._lock_of(host))
                else:
                    self._coordinator.start()
                    name = self._lock_of(host).name
                    left = self._coordinator._client.pttl(name) / 1000
                break
            except Exception as exc:
                error = self._failed(exc)
                if not others:
                    raise error from exc
        return left if left > 0 else None

    def _check_replicas(self) -> None:
        """Refuse a Redis whose primary would renew locks for too long after a failover."""
        if self._scheme != "redis":
            return
        client, limit = self._coordinator._client, self._timing.longest_lag
        try:
            settings = client.config_get("min-replicas-*")
            fewest = int(settings["min-replicas-to-write"])
            lag = int(settings["min-replicas-max-lag"])
            has_replicas = bool(
                client.info("replication")["connected_slaves"] or "sentinel" in self._url
            )
        except Exception as exc:
            LOG.warning(
                "[lease-replicas-unknown] Redis does not show its settings (%s). If it has "
                "replicas, min-replicas-to-write must be at least 1, and min-replicas-max-lag at "
                "most %d",
                *(logs.one_line(str(exc)), limit),
            )
            return
        if (has_replicas and not fewest) or (fewest and not 0 < lag <= limit):
            raise exceptions.InvalidConfiguration(
                OPTION,
                f"Redis has replicas, min-replicas-to-write {fewest} and min-replicas-max-lag "
                f"{lag}: after a failover two processes could be active. With standby_ttl as it "
                f"is, set them to at least 1, and to 1 to {limit}"
                if limit > 0
                else "Redis has replicas, which needs a standby_ttl of at least 7",
            )

    def stop(self) -> None:
        """After a look: close the connections."""
        if not self._members:
            self._coordinator.stop()

    def write_note(self, host: str, note: Note, seconds: int) -> None:
        """See :class:`~ironic_virt.standby.lease.Lock`; a file has none."""
        try:
            if self._members:
                client = self._coordinator.client
                client.put(
                    self._note_prefix(host) + self._member, note.dump(), client.lease(seconds)
                )
            elif self._scheme == "redis":
                name = self._note_prefix(host) + self._member
                self._coordinator._client.set(name, note.dump(), ex=seconds)
        except Exception as exc:
            raise self._failed(exc) from exc

    def notes(self, host: str) -> list[Note]:
        """See :class:`~ironic_virt.standby.lease.Lock`."""
        try:
            if self._members:
                found = self._coordinator.client.get_prefix(self._note_prefix(host))
                return load(text for text, _ in found)
            if self._scheme == "redis":
                client = self._coordinator._client
                names = list(client.scan_iter(match=f"{self._note_prefix(host)}*", count=1000))
                return load(filter(None, client.mget(names))) if names else []
        except Exception as exc:
            raise self._failed(exc) from exc
        return []

    def _lock_of(self, host: str) -> Any:
        return self._coordinator.get_lock(f"{self._prefix}{host.lower()}".encode())

    def _note_prefix(self, host: str) -> str:
        lock = self._lock_of(host)
        name: bytes = lock._key if self._members else lock.name
        return f"{name.decode()}/notes/"

    def _seconds_in_etcd(self, lock: Any) -> float:
        from etcd3gw.lease import Lease as LeaseOfEtcd

        client = self._coordinator.client
        found = client.get(lock._key, metadata=True)
        # One that expires in between has -1.
        return max((LeaseOfEtcd(int(kept["lease"]), client).ttl() for _, kept in found), default=0)

    def _tokens_in_etcd(self) -> list[bytes]:
        """That of the holder, if there is one."""
        found: list[bytes] = self._coordinator.client.get(self._lock._key)
        return found

    def _is_not_ours(self) -> bool:
        """Whether the backend itself says so."""
        if self._members:
            return False
        try:
            return not self._lock.is_still_owner()
        except Exception:
            return False

    def _failed(self, error: Exception) -> exceptions.StandbyBackendFailed:
        """The error with the address that was asked; the next member is asked from now on."""
        address = urllib.parse.urlsplit(self._url).netloc.rpartition("@")[2]
        if self._members:
            address = self._members.address
            self._members.turn(self._coordinator.client)
        # That of etcd says only "Bad Request" otherwise.
        detail = getattr(error.__cause__ or error, "detail_text", None)
        reason = logs.one_line(str(detail or error)) or type(error).__name__
        return exceptions.StandbyBackendFailed(f"{address or self._scheme}: {reason}")
