# SPDX-License-Identifier: Apache-2.0

"""Fixtures for pytest, there wherever ``ironic-virt[testing]`` is installed.

pytest finds them by an entry point; nothing need be imported or named in a ``conftest.py``.
Loading this module imports nothing of the fake: only a test that asks for a fixture pays for it.

Override :func:`fake_ironic_settings` in a module or a ``conftest.py`` to have an Ironic that is
configured otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer, Settings
    from ironic_virt.testing.fault_proxy import FaultProxy


@pytest.fixture
def fake_ironic_settings() -> Settings:
    """How the fake Ironic of the other fixtures is configured."""
    from ironic_virt.testing.fake_ironic import Settings

    return Settings()


@pytest.fixture
def fake_ironic_url() -> str:
    """Where ``requests`` finds :func:`fake_ironic`."""
    return "http://ironic.test"


@pytest.fixture
def fake_ironic(fake_ironic_settings: Settings, fake_ironic_url: str) -> Iterator[FakeIronic]:
    """A fake Ironic in this process, on a virtual clock, without sockets.

    Its faults are ``fake_ironic.faults``.
    """
    from ironic_virt.testing.fake_ironic import FakeIronic

    fake = FakeIronic(fake_ironic_settings)
    with fake.mock(fake_ironic_url):
        yield fake


@pytest.fixture
def fake_ironic_server(fake_ironic_settings: Settings) -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP, in real time, on a free port of the loopback.

    It is at ``fake_ironic_server.url``; ``fake_ironic_server.fake`` has its nodes.
    """
    from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer, RealClock

    with FakeIronicServer(FakeIronic(fake_ironic_settings, clock=RealClock())) as server:
        yield server


@pytest.fixture
def ironic_fault_proxy(fake_ironic_server: FakeIronicServer) -> Iterator[FaultProxy]:
    """A fault proxy in front of :func:`fake_ironic_server`, at ``ironic_fault_proxy.url``."""
    from ironic_virt.testing.fault_proxy import FaultProxy

    with FaultProxy(fake_ironic_server.url) as proxy:
        yield proxy
