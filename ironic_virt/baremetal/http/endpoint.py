# SPDX-License-Identifier: Apache-2.0

"""Where Ironic is, by Keystone's catalogue and what Ironic shows at its root.

The URL is looked up once.  While requests to it fail, a thread asks the catalogue again:
requests continue with the known URL, so a Keystone that hangs delays none of them.

An Ironic that is away while it is discovered is unreachable, as at any other time: what
keystoneauth1 would guess then is not used.  One that shows no versions where the catalogue
leads (a proxy may hide them) is asked below ``/v1``.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import identity
from oslo_log import log as logging

from ironic_virt import exceptions, logs
from ironic_virt.baremetal.http import transport
from ironic_virt.conf import ironic as ironic_conf

LOG = logging.getLogger(__name__)

LOOK_UP_AGAIN = 60.0
"""Seconds between two looks at the catalogue while requests fail where it leads."""

_LONGEST_PAUSE = 240.0

VERSION = "1"
_PATH = f"/v{VERSION}"

# What keystoneauth1 raises for an answer that is not a version document.
GARBLED = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
_NO_VERSIONS = (ksa_exceptions.DiscoveryFailure, *GARBLED)


def in_thread(work: Callable[[], None]) -> None:
    """Run ``work`` in a new daemon thread."""
    threading.Thread(target=work, name="ironic-virt-endpoint", daemon=True).start()


class Endpoint:
    """The URL that paths are below.

    :param adapter: knows the service, and whom to ask where it is.
    :param clock: a monotonic clock in seconds.
    :param start: runs a function without making the caller wait.
    """

    def __init__(
        self,
        adapter: ksa_adapter.Adapter,
        clock: Callable[[], float] = time.monotonic,
        start: Callable[[Callable[[], None]], None] = in_thread,
    ) -> None:
        self._adapter = adapter
        auth = adapter.auth or adapter.session.auth
        self._keystone: identity.BaseIdentityPlugin | None = None
        if isinstance(auth, identity.BaseIdentityPlugin) and not adapter.endpoint_override:
            self._keystone = auth
        self._clock = clock
        self._start = start
        self._url: str | None = None
        self._has_failed = False
        self._is_looking_up = False
        self._looked_at: float | None = None
        self._pause = LOOK_UP_AGAIN

    def failed(self) -> None:
        """Note that a request to it failed."""
        self._has_failed = True

    def url(self) -> str:
        """The URL; called by one thread at a time.

        :raises Away: Ironic has to be discovered, and is away.
        :raises IronicUnreachable: the catalogue has no Ironic.
        """
        if self._looked_at is None:
            self._looked_at = self._clock()
        elif (
            self._keystone is not None
            and self._has_failed
            and not self._is_looking_up
            and self._clock() - self._looked_at >= self._pause
        ):
            self._has_failed, self._is_looking_up, self._looked_at = False, True, self._clock()
            self._start(functools.partial(self._look_up, self._keystone))
        if self._url is None:
            self._url = self._discover()
        return self._url

    def _look_up(self, keystone: identity.BaseIdentityPlugin) -> None:
        """Ask Keystone for its catalogue, which comes with a token."""
        try:
            keystone.auth_ref = keystone.get_auth_ref(self._adapter.session)
            self._url = self._discover()
            self._pause = LOOK_UP_AGAIN
        except Exception as exc:
            # The token at hand and the former URL may still do.
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
            LOG.debug("Can't look up Ironic's address again: %s", logs.one_line(str(exc)))
        finally:
            self._is_looking_up = False

    def _discover(self) -> str:
        # From Keystone's catalogue, unless endpoint_override is set.
        try:
            endpoint = self._adapter.get_endpoint(skip_discovery=True)
        except ksa_exceptions.CatalogException:
            endpoint = None
        if not endpoint:
            self._has_failed = True
            raise exceptions.IronicUnreachable(
                "the service catalog has no bare metal endpoint for this region and "
                "interface; see [ironic] service_type, region_name, valid_interfaces "
                "and endpoint_override"
            )
        # keystoneauth1 would log a password in the URL.
        if not endpoint.rstrip("/").endswith(_PATH) and "@" not in endpoint:
            try:
                with transport.discovering(ironic_conf.RETRIED_STATUSES):
                    data = self._adapter.get_endpoint_data()
                endpoint = (data.service_url if data else None) or endpoint
            except _NO_VERSIONS as exc:
                LOG.debug("%s shows no versions: %s", endpoint, logs.one_line(str(exc)))
        endpoint = endpoint.rstrip("/")
        return endpoint if endpoint.endswith(_PATH) else endpoint + _PATH
