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
Seconds after which a refresh lists all nodes again. In between, a refresh reads
only the nodes that were changed or created since the last one. 0: every
refresh lists all nodes.

Less than 250 nodes are listed at every refresh in any case, if they fit into
one page of Ironic's: that is one request.

The clocks of the conductors should agree within 20 seconds; what a clock that
is further off hides is seen with the next full list.

A node that was deleted, or that left the conductor group or shard, is found after
300 seconds at most. Until then it still counts as this service's, but nothing is
done to it: before any action it is read again.
""",
    ),
    cfg.IntOpt(
        "inventory_max_age",
        default=1800,
        min=0,
        help="""
Seconds for which nodes are reported after the last list of them, when they can't be listed
any more. After that the reference service marks its nodes as not available, so that no new
instance gets one until they are listed again. Nova's periodic task hears that the driver is
not ready, and does nothing: its records and Placement stay as they are, so Nova goes on
scheduling to these nodes. A build reads its node before it takes it, and fails if Ironic
does not answer. What runs on the nodes is not touched, and no record is deleted. 0: no
limit.
""",
    ),
    cfg.StrOpt(
        "node_refresh",
        default="changed",
        choices=[
            ("changed", "the nodes that may have changed, and each one at least once an hour"),
            ("all", "all nodes, as Nova does it by itself"),
        ],
        help="""
Which nodes Nova looks at in each period (``[DEFAULT] update_resources_interval``). With
``all`` each node costs two requests to Placement and three to the conductor, although
nothing has changed. With ``changed`` a few requests for all nodes tell which ones may
have changed; what an operator sees in Nova and Placement is the same.

Only nova-compute reads it.
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
