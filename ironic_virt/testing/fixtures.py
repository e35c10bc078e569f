# SPDX-License-Identifier: Apache-2.0

"""Fixtures for pytest, to be had by naming this module as a plugin::

    # conftest.py
    pytest_plugins = ["ironic_virt.testing.fixtures"]


    # test_something.py
    def test_deploying(fake_ironic, fake_ironic_url):
        node = fake_ironic.add_node()
        ...  # anything that uses requests or openstacksdk, towards fake_ironic_url
        fake_ironic.settle()

Override :func:`fake_ironic_settings` in a module or a conftest to have a fake
Ironic that is configured otherwise.
"""

from collections.abc import Iterator

import pytest

from ironic_virt.testing.fake_ironic import FakeIronic, FakeIronicServer, RealClock, Settings


@pytest.fixture
def fake_ironic_settings() -> Settings:
    """How the fake Ironic of the other fixtures is configured."""
    return Settings()


@pytest.fixture
def fake_ironic_url() -> str:
    """Where :func:`fake_ironic` is found."""
    return "http://ironic.test"


@pytest.fixture
def fake_ironic(fake_ironic_settings: Settings, fake_ironic_url: str) -> Iterator[FakeIronic]:
    """A fake Ironic in this process, on a virtual clock, without sockets."""
    fake = FakeIronic(fake_ironic_settings)
    with fake.mock(fake_ironic_url):
        yield fake


@pytest.fixture
def fake_ironic_server(fake_ironic_settings: Settings) -> Iterator[FakeIronicServer]:
    """A fake Ironic over HTTP, in real time, on a free port of the loopback."""
    with FakeIronicServer(FakeIronic(fake_ironic_settings, clock=RealClock())) as server:
        yield server
