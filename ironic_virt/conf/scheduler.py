# SPDX-License-Identifier: Apache-2.0

"""The ``[scheduler]`` options: how a free node is chosen for an instance."""

from __future__ import annotations

from oslo_config import cfg, types

GROUP = "scheduler"

OPTIONS = [
    cfg.ListOpt(
        "enabled_filters",
        default=[
            "ResourceClassFilter",
            "RamFilter",
            "CoreFilter",
            "DiskFilter",
            "TraitsFilter",
            "ComputeCapabilitiesFilter",
        ],
        help="""
The filters that a node must pass. An empty list: every free node will do.

Names of entry points in the namespace ``ironic_virt.scheduler.filters``. An
unknown name is an error at start that lists the names found.
""",
    ),
    cfg.BoolOpt(
        "use_baremetal_filters",
        default=False,
        help="""
Use ``baremetal_enabled_filters`` in place of ``enabled_filters``.
""",
    ),
    cfg.ListOpt(
        "baremetal_enabled_filters",
        default=[
            "ResourceClassFilter",
            "ExactRamFilter",
            "ExactCoreFilter",
            "ExactDiskFilter",
            "TraitsFilter",
            "ComputeCapabilitiesFilter",
        ],
        help="""
The filters that a node must pass when ``use_baremetal_filters`` is set. By
default a node's memory, cores and disk must be exactly those of the flavor.
""",
    ),
    cfg.ListOpt(
        "enabled_weighers",
        default=["InstanceCountWeigher", "SnugFitWeigher"],
        help="""
The weighers that tell which of the nodes that have passed is the best.

Names of entry points in the namespace ``ironic_virt.scheduler.weighers``. An
unknown name is an error at start that lists the names found.
""",
    ),
    cfg.Opt(
        "weight_multipliers",
        type=types.Dict(value_type=types.Float()),
        default={},
        help="""
How much a weigher counts, by its name, as ``SnugFitWeigher:2.5``. 0: not at
all; below 0: the other way round. Where nothing is said, a weigher has its own:
2.0 for SnugFitWeigher, 1.0 for InstanceCountWeigher.
""",
    ),
    cfg.IntOpt(
        "host_subset_size",
        default=1,
        min=1,
        help="""
From how many of the best nodes one is chosen at random. Nodes of equal weight
are in random order in any case.
""",
    ),
    cfg.IntOpt(
        "max_instances_per_host",
        default=1000,
        min=1,
        help="""
How many instances a compute service may have, for ``NumInstancesFilter``, which
isn't enabled by default.
""",
    ),
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
        help="""
On how many nodes a build is tried before the instance goes to error. A node that
has left the shard or group of its service is refused untouched and doesn't count.
A failure that any node would repeat, as that of an image, isn't tried again.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the ``[scheduler]`` options."""
    conf.register_opts(OPTIONS, group=GROUP)
