# SPDX-License-Identifier: Apache-2.0

"""Options of the group ``[ironic]`` for what a refresh of the nodes asks."""

from __future__ import annotations

from oslo_config import cfg

OPTIONS = [
    cfg.IntOpt(
        "inventory_full_resync_period",
        default=600,
        min=0,
        help="""
Seconds after which a refresh lists all nodes again. In between, a refresh reads only the
nodes that were changed or created since the last one. 0, or fewer than 250 nodes in one
page of Ironic's: every refresh lists all nodes.

The clocks of the conductors should agree within 20 seconds; what a clock that
is further off hides is seen with the next full list.

A node that was deleted, or that left the conductor group or shard, is noticed after
300 seconds at most. Nothing is done to it meanwhile: each action reads its node first.
""",
    ),
    cfg.IntOpt(
        "inventory_max_age",
        default=1800,
        min=0,
        help="""
Seconds for which nodes are still reported when they can't be listed any more. 0: no limit.

After that the reference service marks its nodes as not available, so that no new instance
gets one until they are listed again. With Nova the driver counts as not ready, and its
periodic task does nothing: records and Placement stay, and Nova goes on scheduling to these
nodes; a build reads its node first, and fails if Ironic does not answer. Nothing that runs is
touched, and no record is deleted.
""",
    ),
    cfg.StrOpt(
        "node_refresh",
        default="changed",
        choices=[
            ("changed", "the nodes that may have changed, and each one at least once an hour"),
            ("all", "all nodes, as Nova does without this driver"),
        ],
        help="""
Which nodes Nova looks at in each period (``[DEFAULT] update_resources_interval``). ``all``
costs two requests to Placement and three to the conductor for each node. With ``changed`` a
few requests tell for all nodes which ones may have changed; what an operator sees is the
same. Only nova-compute reads it.
""",
    ),
    cfg.IntOpt(
        "settled_max_age",
        default=3600,
        min=0,
        help="""
Seconds after which Nova looks at a node even if nothing has changed; for each node it
is half of that to all of it, at random. 0: at each period.
""",
    ),
]
