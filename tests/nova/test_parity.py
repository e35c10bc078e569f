# SPDX-License-Identifier: Apache-2.0

"""Names and values that Nova has a rule for: the same by ours and by Nova's own functions."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nova import utils

from ironic_virt.request.spec import placement_class
from tests import depth

settings.register_profile(
    "parity",
    max_examples=depth.choose(200, 2000),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
parity = settings.get_profile("parity")
"""For each property: the same examples in each run, however slow the machine is."""

CLASSES = st.one_of(
    st.text(max_size=80),
    st.text("aZ09_ .-()ßéİ日", max_size=80),
    st.text("cCuUsStToOmM_", max_size=12),
    st.sampled_from(["R640 (96G)", "bm--2", "CUSTOM_GOLD", "custom_gold", "straße", "ﬁ"]),
)


@parity
@given(CLASSES)
def test_a_resource_class_has_novas_name_in_placement(name: str) -> None:
    assert placement_class(name) == utils.normalize_rc_name(name)
