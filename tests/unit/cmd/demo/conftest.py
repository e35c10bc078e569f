# SPDX-License-Identifier: Apache-2.0

"""The stage on which the journey is gone: a compute service without threads."""

from tests.unit.compute.conftest import engines_by_url, fake, records, set_stage

__all__ = ["engines_by_url", "fake", "records", "set_stage"]
