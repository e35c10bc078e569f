# SPDX-License-Identifier: Apache-2.0

"""The settings of a fake Ironic: versions, speeds, conductors."""

import dataclasses
import random

#: What Ironic 39.0.0 speaks.
MIN_VERSION = (1, 1)
MAX_VERSION = (1, 115)

Span = float | tuple[float, float]


def parse_version(text: str) -> tuple[int, int]:
    """``"1.81"`` as ``(1, 81)``.

    :raises ValueError: if it is anything else.
    """
    major, dot, minor = text.partition(".")
    if not dot or not major.isdecimal() or not minor.isdecimal():
        raise ValueError(f"{text!r} is not an API version such as 1.81")
    return int(major), int(minor)


def parse_span(text: str) -> Span:
    """``"5"`` as 5.0 seconds; ``"5,30"`` as anything from 5 to 30, mostly near 5.

    :raises ValueError: if it is neither, or negative, or the wrong way round.
    """
    try:
        parts = [float(part) for part in text.split(",")]
    except ValueError:
        parts = []
    if len(parts) == 1 and parts[0] >= 0:
        return parts[0]
    if len(parts) == 2 and 0 <= parts[0] <= parts[1]:
        return parts[0], parts[1]
    raise ValueError(f"{text!r} is neither seconds such as 5 nor a range such as 5,30")


def pick(span: Span, rng: random.Random) -> float:
    """A duration out of ``span``; ranges lean to their lower end, as Ironic's do."""
    if isinstance(span, tuple):
        low, high = span
        return rng.triangular(low, high, low)
    return span


@dataclasses.dataclass(frozen=True, slots=True)
class Durations:
    """How long things take, in seconds: a number, or a (low, high) range.

    ``undeploy`` is the tear-down alone; automated cleaning (``clean``) follows
    it.  With 0 a transition is over when the next request arrives.
    """

    deploy: Span = 0.0
    undeploy: Span = 0.0
    clean: Span = 0.0
    inspect: Span = 0.0
    verify: Span = 0.0
    rescue: Span = 0.0
    unrescue: Span = 0.0
    adopt: Span = 0.0
    service: Span = 0.0
    power: Span = 0.0
    console: Span = 0.0
    allocate: Span = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Conductor:
    """A conductor, the group it serves and the hardware types it knows."""

    hostname: str = "conductor-1"
    group: str = ""
    drivers: tuple[str, ...] = ("fake-hardware",)
    alive: bool = True


#: Interface type -> what is enabled, the default first.
INTERFACES: dict[str, tuple[str, ...]] = {
    "bios": ("fake", "no-bios"),
    "boot": ("fake",),
    "console": ("fake", "no-console", "fake-graphical", "ipmitool-socat"),
    "deploy": ("fake",),
    "firmware": ("fake", "no-firmware"),
    "inspect": ("fake", "no-inspect"),
    "management": ("fake", "noop"),
    "network": ("flat", "noop", "neutron"),
    "power": ("fake",),
    "raid": ("fake", "no-raid"),
    "rescue": ("fake", "no-rescue"),
    "storage": ("noop", "cinder", "external", "fake"),
    "vendor": ("fake", "no-vendor"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """A fake Ironic's configuration.

    :param min_version: the oldest API version served, as (major, minor).
    :param max_version: the newest.
    :param durations: how long transitions take.
    :param conductors: who serves which conductor group; a node can only be
        created in, or moved to, a group that a live conductor serves.
    :param automated_clean: whether nodes are cleaned on the way to available.
    :param wait_states: whether the second half of a deploy, clean, rescue,
        inspection or service is spent in the ``... wait`` state, in which the
        node is not locked, as real hardware does.  ``fake-hardware`` does not.
    :param power_follows_deploy: whether a deployed node ends up powered on and
        a cleaned one powered off, as real hardware does.  ``fake-hardware``
        leaves the power alone.
    :param virtual_media: whether cleaning up after the deploy ramdisk takes the power away,
        as boot interface ``redfish-virtual-media`` does: a rescued node is off, and a failed
        deployment has lost its ``last_error``.  Not for nodes with ``{"fast_track": true}`` in
        ``driver_info``.
    :param network_interface: the default of new nodes.  ``noop`` accepts any
        VIF and remembers none; ``flat`` and ``neutron`` bind VIFs to ports.
    :param supports_nmi: whether all hardware can be sent an NMI; else only that of nodes
        with ``{"takes_nmi": true}`` in ``driver_info``.  (``fake-hardware`` can't.)
    :param boot_devices: the boot devices that the hardware supports.
    :param novnc_url: the page of a graphical console's proxy.
    :param max_limit: the largest page of a list.
    :param nulls_sort_last: whether a field without a value sorts as on PostgreSQL:
        behind all values, and in descending order before them.
    :param token: if set, requests need this ``X-Auth-Token``, else 401.
    :param seed: makes everything random repeatable: durations out of ranges,
        the node that an allocation gets, request ids.
    """

    min_version: tuple[int, int] = MIN_VERSION
    max_version: tuple[int, int] = MAX_VERSION
    durations: Durations = dataclasses.field(default_factory=Durations)
    conductors: tuple[Conductor, ...] = (Conductor(),)
    automated_clean: bool = True
    wait_states: bool = False
    power_follows_deploy: bool = False
    virtual_media: bool = False
    network_interface: str = "flat"
    supports_nmi: bool = False
    boot_devices: tuple[str, ...] = ("pxe",)
    novnc_url: str = "http://127.0.0.1:6090/vnc_lite.html"
    max_limit: int = 1000
    nulls_sort_last: bool = False
    token: str | None = None
    seed: int = 0
