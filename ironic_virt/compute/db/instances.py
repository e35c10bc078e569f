# SPDX-License-Identifier: Apache-2.0

"""Instances: asking about them, wanting something of them, saying what became of it."""

from __future__ import annotations

from ironic_virt.compute.db.instance_outcomes import InstanceOutcomes
from ironic_virt.compute.db.instance_requests import InstanceRequests
from ironic_virt.compute.db.instance_rows import InstanceRows


class Instances(InstanceRows, InstanceRequests, InstanceOutcomes):
    """The records of instances."""
