# SPDX-License-Identifier: Apache-2.0

"""The lock of a lease in etcd, in Redis or in a file, by tooz.

What tooz's locks do, as read in its releases 6.2 to 8.1, and seen: with Redis, ``heartbeat``
raises an error when the key is gone or another's; with etcd, it succeeds also for a lease that has
expired, and for a key that is gone, so the key is read afterwards.  A file's is a POSIX lock.

MySQL and PostgreSQL have locks of a connection, which may break without its holder's noticing,
and keep the lock of a process that hangs.  They are refused, and so is all else.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
import threading
import urllib.parse
import uuid
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import msgspec
from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.standby.etcd import EtcdMembers
from ironic_virt.standby.note import Look, Note, load_notes
from ironic_virt.standby.timing import Timing, native_threading

LOG = logging.getLogger(__name__)

OPTION = "[ironic] standby_backend_url"

_SCHEMES = ("etcd3+http", "etcd3+https", "redis", "file")


def look_at_lease(url: str, ttl: int, namespace: str, host: str, *, seconds: float = 10) -> Look:
    """Look at the lease of a host name, without a part in it: for the tools of operators.

    :param url: this, the ttl and the namespace are the options of its processes.
    """
    answer = futures.Future[Look]()

    def ask_backend() -> None:
        try:
            answer.set_result(ToozLock(url, ttl, namespace).look_at(host))
        except Exception as exc:
            answer.set_result(Look(untold=str(exc)))

    # tooz may try a Redis for minutes.
    threading.Thread(target=ask_backend, name="ironic-virt-lease-look", daemon=True).start()
    try:
        return answer.result(seconds)
    except TimeoutError:
        return Look(untold=f"no answer within {seconds:.0f} s")


class ToozLock:
    """A lock that ends by itself if it is not renewed.  Thread-safe, for native threads too.

    All methods raise :class:`.StandbyBackendFailed` when the backend does not say how it is.

    :param url: tooz's; its ``timeout`` and ``lock_timeout`` are set here.
    :param ttl: seconds from the end of its holder until another process may act.
    :param namespace: part of the names of locks; see ``[ironic] standby_namespace``.
    :raises InvalidConfiguration: it can't hold a lease, or its packages are missing.
    """

    def __init__(self, url: str, ttl: int, namespace: str = "") -> None:
        self._prefix = f"ironic-virt-{namespace}:" if namespace else "ironic-virt-"
        self._member = f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4()}"
        without_options = re.sub(r"\?\w+=.*", "", url)
        if not url.startswith("file:") and re.search("//.*[][/?#].*@", without_options):
            raise exceptions.InvalidConfiguration(
                OPTION,
                "quote / ? # [ ] before its @, as %2F for /; Redis needs a password without them",
            )
        self._scheme = urllib.parse.urlsplit(url).scheme
        if self._scheme not in _SCHEMES:
            raise exceptions.InvalidConfiguration(
                OPTION,
                f"{self._scheme or 'a URL without a scheme'} can't hold a lease: its locks have "
                f"no time to live, or are not known to be safe. Use one of {', '.join(_SCHEMES)}",
            )
        self._url = url
        self.timing = Timing.of(self._scheme, ttl)
        self._mutex = native_threading().Lock()
        self._members = EtcdMembers(url) if self._scheme.startswith("etcd") else None
        self._tries = len(self._members) if self._members else 1
        self._coordinator = self._make_coordinator()
        self._lock: Any = None

    def _make_coordinator(self) -> Any:
        try:
            from tooz import coordination

            return coordination.get_coordinator(
                self._members.url if self._members else self._url,
                self._member.encode(),
                timeout=str(max(1, int(self.timing.valid / 2 / self._tries))),
                lock_timeout=str(self.timing.lock),
            )
        except Exception as exc:
            raise exceptions.InvalidConfiguration(
                OPTION,
                f"tooz can't use it ({logs.one_line(str(exc))}). The packages that it needs "
                "come with ironic-virt's extra 'standby'",
            ) from exc

    def acquire(self, host: str) -> bool:
        """Try to get the lock of a host name; whether it is this process's now."""
        if self._lock is None:
            # One that could not be started can't be started again.
            self._coordinator = self._make_coordinator()
            with self._asking():
                self._coordinator.start()
            if self._scheme == "redis":
                self._check_replicas()
        with self._asking():
            self._lock = self._lock_of(host)
            # To try costs etcd two writes.
            is_taken = self._members and self._coordinator.client.get(self._lock._key)
            return not is_taken and bool(self._lock.acquire(blocking=False))

    def renew(self) -> bool:
        """Have it live longer; ``False``: it is not this process's any more."""
        with self._asking():
            if self._members:
                # Neither name is public in tooz, and nothing else says whose the key is.
                token, client = base64.b64decode(self._lock._uuid), self._coordinator.client
                return bool(self._lock.heartbeat()) and token in client.get(self._lock._key)
            if self._scheme == "file":
                # If somebody has removed or moved it, another process gets a lock on a new one.
                lock = self._lock._lock
                is_there = self._lock.acquired and os.path.exists(lock.path)
                return bool(is_there and os.path.samefile(lock.path, lock.lockfile.fileno()))
            try:
                return bool(self._lock.heartbeat())
            except Exception:
                if self._lock.is_still_owner():
                    raise
                return False

    def release(self) -> None:
        """Give it to the next one."""
        with self._asking():
            self._lock.release()

    def look_at(self, host: str) -> Look:
        """Look at the lock of a host name, also another process'; a file can't tell."""
        untold = ""
        for _ in range(self._tries):
            try:
                with self._asking():
                    seconds = self._read_remaining(host)
                age = max(0.0, self.timing.lock - seconds) if seconds > 0 else None
                return Look(age, self.read_notes(host))
            except exceptions.StandbyBackendFailed as exc:
                untold = str(exc)
        return Look(untold=untold)

    def _read_remaining(self, host: str) -> float:
        """Seconds for which the lock still lives; 0 or less: nobody has it."""
        if not self._members:
            self._coordinator.start()
            return float(self._coordinator._client.pttl(self._lock_of(host).name)) / 1000
        from etcd3gw.lease import Lease as LeaseOfEtcd

        client = self._coordinator.client
        keys = client.get(self._lock_of(host)._key, metadata=True)
        # One that expires in between has -1.
        return max((LeaseOfEtcd(int(key["lease"]), client).ttl() for _, key in keys), default=0)

    def _check_replicas(self) -> None:
        """Refuse a Redis whose primary would renew locks for too long after a failover."""
        client, limit = self._coordinator._client, self.timing.longest_lag
        try:
            settings = client.config_get("min-replicas-*")
            fewest = int(settings["min-replicas-to-write"])
            lag = int(settings["min-replicas-max-lag"])
            connected = client.info("replication")["connected_slaves"]
        except Exception as exc:
            LOG.warning(
                "[lease-replicas-unknown] Redis does not show its settings (%s). If it has "
                "replicas, min-replicas-to-write must be at least 1, and min-replicas-max-lag at "
                "most %d",
                *(logs.one_line(str(exc)), limit),
            )
            return
        has_replicas = connected or "sentinel" in self._url
        if (has_replicas and not fewest) or (fewest and not 0 < lag <= limit):
            raise exceptions.InvalidConfiguration(
                OPTION,
                f"Redis has replicas, min-replicas-to-write {fewest} and min-replicas-max-lag "
                f"{lag}: after a failover two processes could be active. With standby_ttl as it "
                f"is, set them to at least 1, and to 1 to {limit}"
                if limit > 0
                else "Redis has replicas, which needs a standby_ttl of at least 7",
            )

    def write_note(self, host: str, note: Note, seconds: int) -> None:
        """Keep what this process says of itself, for so many seconds; a file can't."""
        with self._asking():
            name, text = self._note_prefix(host) + self._member, msgspec.json.encode(note)
            if self._members:
                client = self._coordinator.client
                client.put(name, text, client.lease(seconds))
            elif self._scheme == "redis":
                self._coordinator._client.set(name, text, ex=seconds)

    def read_notes(self, host: str) -> list[Note]:
        """What processes of a host name say of themselves, the active one first."""
        with self._asking():
            prefix = self._note_prefix(host)
            if self._members:
                return load_notes(text for text, _ in self._coordinator.client.get_prefix(prefix))
            if self._scheme == "redis":
                client = self._coordinator._client
                names = list(client.scan_iter(match=f"{prefix}*", count=1000))
                return load_notes(filter(None, client.mget(names))) if names else []
        return []

    def _lock_of(self, host: str) -> Any:
        return self._coordinator.get_lock(f"{self._prefix}{host.lower()}".encode())

    def _note_prefix(self, host: str) -> str:
        lock = self._lock_of(host)
        name: bytes = lock._key if self._members else lock.name
        return f"{name.decode()}/notes/"

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        with self._mutex:
            try:
                if self._members:
                    self._members.log_in(self._coordinator.client)
                yield
            except Exception as exc:
                raise self._failed(exc) from exc

    def _failed(self, error: Exception) -> exceptions.StandbyBackendFailed:
        """The error with the address that was asked; the next member is asked from now on."""
        if self._members:
            address = self._members.address
            self._members.turn_to_next(self._coordinator.client)
        else:
            address = urllib.parse.urlsplit(self._url).netloc.rpartition("@")[2]
        # That of etcd says only "Bad Request" otherwise.
        detail = getattr(error.__cause__ or error, "detail_text", None)
        reason = logs.one_line(str(detail or error)) or type(error).__name__
        return exceptions.StandbyBackendFailed(f"{address or self._scheme}: {reason}")
