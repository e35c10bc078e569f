# SPDX-License-Identifier: Apache-2.0

"""Which API versions Ironic speaks now: asked once, and again when they may have changed.

They are asked again after some minutes, after a 406, and whenever a version that is needed
is missing.  An Ironic is several API servers, which are upgraded one after the other: one
that is older than another was shortly before says nothing of Ironic.  What it can't do is
put off then (:class:`~ironic_virt.exceptions.IronicUnavailable`), never done without.  Only
if no newer one has answered for some minutes, Ironic itself counts as older.

Thread-safe; nothing is asked under a lock.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Collection

from oslo_log import log as logging

from ironic_virt import exceptions
from ironic_virt.baremetal.http.single_flight import SingleFlight
from ironic_virt.baremetal.http.versions import BASE, Feature, Microversion, ServerVersions

LOG = logging.getLogger(__name__)

PERIOD = 300.0
"""Seconds for which an answer is believed."""

OLDER_FOR_A_WHILE = 300.0
"""Seconds for which older servers must have answered alone until Ironic counts as older."""


class Negotiation:
    """The API versions of one Ironic.

    :param ask: reads them by a single request.
    :param clock: a monotonic clock in seconds.
    """

    def __init__(
        self, ask: Callable[[], ServerVersions], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._flight: SingleFlight[ServerVersions] = SingleFlight()
        self._known: ServerVersions | None = None
        self._asked_at = 0.0
        self._asked_times = 0
        self._best = Microversion(0, 0)
        self._older_since: float | None = None

    def versions(self) -> ServerVersions:
        """The API versions that Ironic speaks, as far as known.

        :raises IronicError: they are not known yet and could not be read.
        """
        with self._lock:
            known = self._known
            is_old = self._clock() - self._asked_at >= PERIOD
            if known is not None and is_old:
                # Other callers go on with what is known.
                self._asked_at = self._clock()
        if known is None:
            return self.ask()
        if is_old:
            try:
                return self.ask()
            except exceptions.IronicError as exc:
                LOG.debug("Ironic's API versions could not be read; the known ones stay: %s", exc)
        return known

    def ask(self) -> ServerVersions:
        """Read the API versions; all callers that come meanwhile share the answer or the error.

        :raises IronicError: they could not be read.
        """
        return self._flight.run(self._asked)

    def _asked(self) -> ServerVersions:
        found = self._ask()
        with self._lock:
            former, self._known = self._known, found
            self._asked_at = now = self._clock()
            self._asked_times += 1
            if found.maximum < self._best and self._older_since is None:
                self._older_since = now
            since = self._older_since
            if found.maximum >= self._best or (
                since is not None and now - since >= OLDER_FOR_A_WHILE
            ):
                self._best, self._older_since = found.maximum, None
        if former is None:
            LOG.info("Ironic speaks API versions %s to %s", found.minimum, found.maximum)
        elif former != found:
            LOG.info("Ironic speaks API versions %s to %s now, %s to %s before", *found, *former)
        return found

    def with_all(
        self, needed: Collection[Feature], wanted: Collection[Feature] = ()
    ) -> ServerVersions:
        """The API versions that Ironic speaks, if they have what is needed.

        :param needed: features that Ironic must have.
        :param wanted: features that may be missing, but only if Ironic is too old for them.
        :raises MicroversionNotSupported: Ironic is too old for what is needed.
        :raises IronicUnavailable: the server that answered is older than Ironic was before.
        :raises IronicError: the versions could not be read.
        """
        asked = self._asked_times
        versions = self.versions()
        if not _is_enough(versions, self._best, tuple(needed), tuple(wanted)):
            if asked == self._asked_times:
                versions = self.ask()
            self._refuse_older(versions, needed, wanted)
        for feature in needed:
            versions.require(feature)
        return versions

    def has(self, feature: Feature) -> bool:
        """Whether Ironic has a feature.

        :raises IronicError: the versions could not be read.
        """
        asked = self._asked_times
        versions = self.versions()
        if not versions.has(feature) and asked == self._asked_times:
            versions = self.ask()
        self._refuse_older(versions, (), (feature,))
        return versions.has(feature)

    def _refuse_older(
        self,
        versions: ServerVersions,
        needed: Collection[Feature],
        wanted: Collection[Feature],
    ) -> None:
        """Raise for a feature that Ironic had before and this server lacks."""
        needs = [("this driver", BASE), *((f.words, f.version) for f in (*needed, *wanted))]
        for words, version in needs:
            if versions.maximum < version <= self._best:
                raise exceptions.IronicUnavailable(
                    f"an API server answers that speaks {versions.maximum} at most, but Ironic "
                    f"has spoken {self._best} before, and {words} needs {version}. Is Ironic "
                    "being upgraded?"
                )


@functools.lru_cache(maxsize=256)
def _is_enough(
    versions: ServerVersions,
    best: Microversion,
    needed: tuple[Feature, ...],
    wanted: tuple[Feature, ...],
) -> bool:
    """Whether a server can do what is needed, and as much of what is wanted as Ironic ever could.

    Worked out once for a server's versions, and asked for each request.
    """
    if versions.maximum < BASE or not all(versions.has(feature) for feature in needed):
        return False
    return all(versions.has(feature) or best < feature.version for feature in wanted)
