# SPDX-License-Identifier: Apache-2.0

"""Our ``[ironic]`` options, in addition to those that Nova registers.

A name that Nova has keeps Nova's definition: its default, whether it is mutable, its
help.  What Nova lacks is added.  ``shard_key`` and Nova's ``shard`` are one thing
under two names, neither of them deprecated here.
"""

from __future__ import annotations

import copy

from nova.conf import ironic as nova_ironic
from nova.conf import netconf, utils
from oslo_config import cfg
from oslo_log import log as logging

from ironic_virt import conf as all_options
from ironic_virt import exceptions
from ironic_virt.conf import ironic, ironic_options, unknown

LOG = logging.getLogger(__name__)


def check_release() -> None:
    """See that this Nova is one that the driver works with, by what it has.

    :raises InvalidConfiguration: it is too old.
    """
    if not any(option.dest == "shard" for option in nova_ironic.ironic_options):
        raise exceptions.InvalidConfiguration(
            "[DEFAULT] compute_driver",
            "ironic_virt does not work with this release of Nova, which has no [ironic] shard. "
            "The oldest release that works is 2024.1 (Nova 29)",
        )


def added_options() -> list[cfg.Opt]:
    """The options of this package that this release of Nova lacks, as they are registered."""
    nova_has = {option.dest for option in nova_ironic.ironic_options}
    added = []
    for option in ironic_options.OPTIONS:
        if option.dest in nova_has:
            continue
        if option.dest == "shard_key":
            # Nova itself has an option with its old name.
            option = copy.copy(option)
            option.deprecated_opts = []
        added.append(option)
    return added


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Add our options to Nova's ``CONF``; harmless when done twice."""
    conf.register_opts(added_options(), group=ironic.GROUP)


def check_options(conf: cfg.ConfigOpts) -> None:
    """Check our options, and let ``shard`` stand for ``shard_key``.

    Both may be set, to the same.  Neither is mutable, so once is enough.

    :raises InvalidConfiguration: a value can't be used, the two shards differ, or a misspelt
        option would decide which nodes are this service's.
    """
    group = conf[ironic.GROUP]
    all_options.read_each(ironic.GROUP, group, ironic_options.OPTIONS)
    # An earlier driver in this process may have left it there.
    conf.clear_default("shard_key", group=ironic.GROUP)
    ours, novas = group.shard_key, group.shard
    if ours is None:
        conf.set_default("shard_key", novas, group=ironic.GROUP)
    elif novas is not None and novas != ours:
        raise exceptions.InvalidConfiguration(
            f"[{ironic.GROUP}] shard_key",
            f"is {ours!r}, but shard is {novas!r}: they are the same option; set one of them",
        )
    for warning in unknown_names(conf):
        LOG.warning("[option-questionable] %s", warning)


def take_over_group_check(conf: cfg.ConfigOpts) -> bool:
    """Switch off Nova's own late check of server groups, which counts hosts.

    :param conf: Nova's options, of the whole process.
    :returns: whether the driver is to check; not if an operator wants no check at all.
    """
    option, group = "disable_group_policy_check_upcall", "workarounds"
    place = conf.get_location(option, group)
    is_ours = place is not None and place.location is cfg.Locations.set_override
    if conf[group][option] and not is_ours:
        LOG.info("[%s] %s is set: server groups are checked by the scheduler alone", group, option)
        return False
    LOG.info("Server groups are checked by failure domain; Nova's own check by host is off")
    conf.set_override(option, True, group)
    return True


def unknown_names(conf: cfg.ConfigOpts) -> list[str]:
    """A sentence for each name in ``[ironic]`` that is neither Nova's option nor ours.

    :raises InvalidConfiguration: one looks like an option that decides which nodes are this
        service's.
    """
    known = ironic.known_names(conf) | unknown.names(nova_ironic.ironic_options)
    return list(unknown.check(conf, ironic.GROUP, known))


def make_conf() -> cfg.ConfigOpts:
    """Make a configuration with Nova's options and ours for ``[ironic]``.

    For programs that read a nova-compute's file without being one.
    """
    conf = cfg.ConfigOpts()
    netconf.register_opts(conf)
    # Not by Nova's function: groups that it makes share their options.
    conf.register_opts(nova_ironic.ironic_options, group=ironic.GROUP)
    utils.register_ksa_opts(conf, ironic.GROUP, nova_ironic.DEFAULT_SERVICE_TYPE)
    register_opts(conf)
    return conf
