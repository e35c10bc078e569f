# SPDX-License-Identifier: Apache-2.0

"""Host states, and what a host manager makes of records and options."""

import pathlib
import shutil
import sys

import pytest

from ironic_virt import exceptions
from ironic_virt.request.spec import RequestSpec
from ironic_virt.scheduler import filters, weighers
from ironic_virt.scheduler.host_manager import IronicHostManager
from ironic_virt.scheduler.host_state import HostState
from ironic_virt.scheduler.weighers import normalized
from tests import entry_points
from tests.unit.scheduler.records import Record, options, scheduler

EXAMPLES = pathlib.Path(__file__).parents[3] / "doc" / "source" / "examples"

# -- host states ------------------------------------------------------------------


def test_a_free_nodes_state_is_all_free_until_it_is_consumed() -> None:
    state = HostState(Record(vcpus=8, memory_mb=16384, local_gb=480, stats={"cpu_arch": "x86_64"}))
    total = (state.vcpus_total, state.total_usable_ram_mb, state.total_usable_disk_gb)
    assert total == (8, 16384, 480)
    described = (state.cpu_arch, state.resource_class, state.placement_class)
    assert described == ("x86_64", "gold", "CUSTOM_GOLD")
    assert (state.free_ram_mb, state.free_disk_mb, state.vcpus_used) == (16384, 480 * 1024, 0)
    assert state.is_free
    state.consume()
    assert (state.free_ram_mb, state.free_disk_mb, state.vcpus_used) == (0, 0, 8)
    assert not state.is_free


@pytest.mark.parametrize("record", [Record(in_use=True), Record(instance_uuid="i1")])
def test_a_node_with_an_instance_has_nothing_free(record: Record) -> None:
    state = HostState(record)
    assert (state.free_ram_mb, state.free_disk_mb, state.vcpus_used) == (0, 0, 8)
    assert not state.is_free
    assert not HostState(Record(available=False)).is_free, "nor is one that can't be deployed on"


# -- host managers ----------------------------------------------------------------


def test_default_and_other_options_are_loaded_in_their_order() -> None:
    for use in (False, True):
        manager = IronicHostManager(options(use_baremetal_filters=use))
        assert len(manager.filters) == 6
        assert list(manager.weighers) == ["InstanceCountWeigher", "SnugFitWeigher"]
    names = ["TraitsFilter", "NumInstancesFilter", "ExactDiskFilter", "CoreFilter"]
    assert list(IronicHostManager(options(enabled_filters=names)).filters) == names


# -- weights ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([], []),
        ([2.0, 2.0], [0.0, 0.0]),
        ([0.0, 5.0, 10.0], [0.0, 0.5, 1.0]),
        ([-4.0, -2.0], [0.0, 1.0]),
    ],
)
def test_weights_are_brought_to_between_0_and_1(weights, expected) -> None:
    assert normalized(weights) == expected


def weighed(records: list[Record], counts: dict[str, int], **values: object) -> list[str]:
    spec = RequestSpec(memory_mb=1024, vcpus=2, root_gb=10, required_traits=frozenset({"A"}))
    hosts = scheduler(**values).select(spec, records, len(records), counts=counts)
    return [host.nodename for host in hosts]


def test_the_service_with_the_fewest_instances_is_best() -> None:
    records = [Record("a", host="c1"), Record("b", host="c2"), Record("c", host="c3")]
    counts = {"c1": 4, "c3": 2}
    assert weighed(records, counts) == ["b", "c", "a"]
    packed = {"InstanceCountWeigher": -1.0}
    assert weighed(records, counts, weight_multipliers=packed) == ["a", "c", "b"]


def sized(name: str, memory_mb: int, local_gb: int = 10, vcpus: int = 2) -> Record:
    return Record(name, memory_mb=memory_mb, vcpus=vcpus, local_gb=local_gb)


@pytest.mark.parametrize(
    "records",
    [
        [sized("exact", 1024), sized("wide", 1024, 40), sized("large", 8192, 40, 8)],
        [Record("plain", traits=frozenset({"A"})), Record("gpu", traits=frozenset({"A", "GPU"}))],
        [sized("exact", 1024), sized("unknown", 0, 20)],
    ],
    ids=["the snuggest is best", "traits are spared", "what is not told is not snug"],
)
def test_the_node_that_fits_is_best(records: list[Record]) -> None:
    assert weighed(records[::-1], {}) == [record.uuid for record in records]


@pytest.mark.parametrize(
    ("multipliers", "best"),
    [({}, "snug"), ({"SnugFitWeigher": 0.5}, "idle"), ({"SnugFitWeigher": 2.0}, "snug")],
    ids=["a large node is not spent to spread", "unless that is wanted", "or is not"],
)
def test_multipliers_decide_between_weighers(multipliers: dict[str, float], best: str) -> None:
    records = [
        Record("snug", host="c1", memory_mb=1024),
        Record("idle", host="c2", memory_mb=65536),
    ]
    assert weighed(records, {"c1": 5}, weight_multipliers=multipliers)[0] == best


# -- what is installed ------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "option", "says"),
    [
        (
            {"enabled_filters": ["RamFilter", "RamFiter"]},
            "enabled_filters",
            "RamFiter is not installed; there are: .*CoreFilter.*TraitsFilter",
        ),
        (
            {"baremetal_enabled_filters": ["x"], "use_baremetal_filters": True},
            "baremetal_enabled_filters",
            "x is not installed",
        ),
        (
            {"enabled_weighers": ["x"]},
            "enabled_weighers",
            "x is not installed; there are: InstanceCountWeigher, SnugFitWeigher",
        ),
        ({"enabled_filters": ["RamFilter"] * 2}, "enabled_filters", "a name stands there twice"),
        (
            {"weight_multipliers": {"SnugFit": 1.0}},
            "weight_multipliers",
            "SnugFit is not in enabled_weighers",
        ),
    ],
)
def test_a_wrong_name_is_an_error_at_start(values, option, says) -> None:
    match = rf"\[scheduler\] {option}: {says}"
    with pytest.raises(exceptions.InvalidConfiguration, match=match):
        IronicHostManager(options(**values))


OTHERS = """
from ironic_virt.scheduler.weighers import Weigher
from rack_filter import rack

def last(conf):
    return Weigher(lambda host, spec: ord(host.nodename))

def not_one(conf):
    return "a filter"
"""


@pytest.fixture
def third_party(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other projects' distributions, as pip would have installed them."""
    names = {"RackFilter": "rack", "RamFilter": "rack", "Broken": "missing", "NotOne": "not_one"}
    points = {name: f"rack_filters:{found}" for name, found in names.items()}
    site = tmp_path / "filters"
    entry_points.install(site, monkeypatch, filters.NAMESPACE, points)
    others = {"LastWeigher": "rack_filters:last"}
    entry_points.install(tmp_path / "weighers", monkeypatch, weighers.NAMESPACE, others)
    shutil.copy(EXAMPLES / "rack_filter.py", site)
    (site / "rack_filters.py").write_text(OTHERS)
    for name in ("rack_filter", "rack_filters"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("third_party")
def test_foreign_filters_and_weighers_are_loaded_by_name() -> None:
    picker = scheduler("RackFilter", enabled_weighers=["LastWeigher"])
    racks = {"a": "1", "b": "1", "c": "2"}
    fleet = [Record(name, stats={"rack": rack}) for name, rack in racks.items()]
    picked = picker.select(RequestSpec(extra_specs={"rack:name": "1"}), fleet, 2)
    assert [host.nodename for host in picked] == ["b", "a"]
    with pytest.raises(exceptions.NoValidHost) as caught:
        picker.select(
            RequestSpec(extra_specs={"rack:name": "9"}),
            [Record("c", stats={"rack": "2"})],
        )
    assert "RackFilter (rack 9) left 0, for example c: it is in rack 2, not 9" in str(caught.value)


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Broken", "Broken could not be loaded"),
        ("NotOne", "NotOne is no ironic_virt.scheduler.filters.Filter"),
        ("RamFilter", "several installed packages bring RamFilter"),
        ("RackFiter", "RackFiter is not installed; there are: Broken, .*RackFilter"),
    ],
)
def test_what_is_wrong_with_somebody_else_s_is_said(name: str, says: str) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match=says):
        scheduler(name)
