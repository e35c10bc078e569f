# SPDX-License-Identifier: Apache-2.0

"""Tests of a client of Ironic, without an Ironic."""

import pytest
import requests
from rack_labels import RackLabels

from ironic_virt.testing.fault_proxy import ResetAfter, Status


def test_a_label_is_written(fake_ironic, fake_ironic_url):
    fake_ironic.add_node(name="n1")
    RackLabels(fake_ironic_url).write("n1", "12")
    assert RackLabels(fake_ironic_url).read() == {"n1": "12"}


def test_a_node_that_a_conductor_has_locked_is_an_error(fake_ironic, fake_ironic_url):
    fake_ironic.lock_node(fake_ironic.add_node(name="n1"))
    with pytest.raises(requests.HTTPError, match="409"):
        RackLabels(fake_ironic_url).write("n1", "12")
    assert RackLabels(fake_ironic_url).read() == {"n1": None}


def test_a_lost_reply_does_no_harm(fake_ironic_server, ironic_fault_proxy):
    fake_ironic_server.fake.add_node(name="n1")
    lost = ironic_fault_proxy.add(ResetAfter(), "PATCH", times=1)
    RackLabels(ironic_fault_proxy.url).write("n1", "12")
    assert lost.hits == 1
    assert fake_ironic_server.fake.node("n1")["extra"] == {"rack": "12"}


def test_an_ironic_that_is_too_busy_is_an_error(ironic_fault_proxy):
    ironic_fault_proxy.add(Status(503))
    with pytest.raises(requests.HTTPError, match="503"):
        RackLabels(ironic_fault_proxy.url).read()
