# SPDX-License-Identifier: Apache-2.0

"""A faithful fake of OpenStack Ironic (39.0.0) for tests and demonstrations.

It serves Ironic's REST API with its microversions, state machines, locks and
error messages, from memory.  Time is virtual by default: something happens only
at a request or when the clock is moved, so tests need no sleeps.

In process, without sockets, for anything that uses ``requests``::

    from ironic_virt.testing.fake_ironic import Durations, FakeIronic

    fake = FakeIronic(durations=Durations(deploy=60, clean=30))
    uuid = fake.add_node(resource_class="gold", traits=["CUSTOM_GPU"], shard="a")
    with fake.mock("http://ironic.test"):
        ...  # openstacksdk with baremetal_endpoint_override=http://ironic.test
        fake.advance(60)  # what was deploying is active now
    assert fake.node(uuid)["provision_state"] == "active"
    assert [entry.path for entry in fake.requests.mutating()] == [...]

(or mount ``fake.adapter()`` on a ``requests.Session``).  Over HTTP, in real
time, on a free port::

    with FakeIronicServer(durations=Durations(deploy=(5, 30))) as server:
        server.fake.add_nodes(100)
        requests.get(f"{server.url}/v1/nodes")

Things that go wrong: ``fake.faults`` (delays, statuses, resets, hangs, lost
replies, truncated bodies, by request), ``fake.fail_next("deploy", "disk
broken")``, ``fake.lock_node(uuid)``, ``fake.invalidate(uuid, "power", "no
BMC")``, ``fake.set_node(uuid, maintenance=True)``, ``fake.remove_node(uuid)``.

All settings are in :class:`Settings`; each can be given to
:class:`FakeIronic` by name.
"""

from ironic_virt.testing.fake_ironic.app import FakeIronic, Reply
from ironic_virt.testing.fake_ironic.clock import Clock, RealClock, VirtualClock
from ironic_virt.testing.fake_ironic.faults import Fault, Faults
from ironic_virt.testing.fake_ironic.inprocess import FakeIronicAdapter
from ironic_virt.testing.fake_ironic.journal import Entry, Journal
from ironic_virt.testing.fake_ironic.server import FakeIronicServer
from ironic_virt.testing.fake_ironic.settings import Conductor, Durations, Settings

__all__ = [
    "Clock",
    "Conductor",
    "Durations",
    "Entry",
    "FakeIronic",
    "FakeIronicAdapter",
    "FakeIronicServer",
    "Fault",
    "Faults",
    "Journal",
    "RealClock",
    "Reply",
    "Settings",
    "VirtualClock",
]
