# SPDX-License-Identifier: Apache-2.0

"""How the real Ironic is configured: options for tests, and the ironic.conf made of them.

Pure: nothing here touches a file or a process.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.real_ironic.scripts.fake_hardware import HELD
from tools.real_ironic.scripts.launch_ironic import PINNED_RELEASE

DELAYS = frozenset(
    {
        *("bios", "boot", "deploy", "firmware", "inspect", "management"),
        *("power", "raid", "rescue", "storage", "vendor"),
    }
)
_DELAY = re.compile(r"\d+(,\d+)?")
_API_VERSION = re.compile(r"1\.\d+")

RPC_PORT = 8089
"""The usual one.  Any other is a part of the conductor's name, but not of the name in its locks,
so that Ironic never releases those of a dead conductor."""

CLEANING_NETWORK = "00000000-0000-0000-0000-00000000c1ea"

INTERFACES = {
    "bios": ("fake", "no-bios"),
    "boot": ("fake",),
    "console": ("fake", "no-console", "fake-graphical", "ipmitool-socat"),
    "deploy": ("fake",),
    "firmware": ("fake", "no-firmware"),
    "inspect": ("fake", "no-inspect"),
    "management": ("fake", "noop"),
    "power": ("fake",),
    "raid": ("fake", "no-raid"),
    "rescue": ("fake", "no-rescue"),
    "storage": ("noop", "cinder", "external", "fake"),
    "vendor": ("fake", "no-vendor"),
}
"""By kind, the default first; one that an older Ironic lacks is left out."""

KnownInterfaces = Callable[[str], Collection[str]]


@dataclass(frozen=True, slots=True)
class Options:
    """How the server is to behave.

    :ivar automated_clean: clean a node after its instance is gone and when it is provided,
        as Ironic does by default.
    :ivar delays: how long fake hardware takes, by the interface's name: whole seconds, ``"5"``,
        or ``"5,30"``, random between the two, nearer to the first; or :data:`HELD`: no time,
        but while it is held, see :meth:`RealIronic.held_hardware`, it does not come to an end.
    :ivar conductor_group: the group that the conductor is in.  It serves no others: with a
        group set, nodes outside it have no conductor.
    :ivar further_groups: groups that get their own conductor, each a process more.
    :ivar conductors: of the group, on MariaDB.  With more than one, each has its own
        process, to be killed, and so has the API.
    :ivar max_api_version: the newest API version that is spoken, ``"1.51"`` for instance;
        None: the newest that this Ironic knows.
    :ivar vifs: attach VIFs for real, to the node's ports, by network interface ``flat`` over a
        stand-in for Neutron; else network interface ``noop``, which takes any VIF and keeps none.
    :ivar port: of the API, in place of any that is free.
    :ivar own_bmcs: nodes get BMCs by somebody else: no stand-in for ``ipmitool`` is put before it.
    :ivar overrides: further options, by section and name, which win over all the others.
    """

    automated_clean: bool = True
    delays: Mapping[str, str] = field(default_factory=dict)
    conductor_group: str = ""
    further_groups: Sequence[str] = ()
    conductors: int = 1
    max_api_version: str | None = None
    vifs: bool = True
    port: int | None = None
    own_bmcs: bool = False
    overrides: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, delay in self.delays.items():
            if name not in DELAYS:
                raise ValueError(f"no delay {name!r}: choose from {', '.join(sorted(DELAYS))}")
            if delay != HELD and not _DELAY.fullmatch(delay):
                raise ValueError(f"delay {name}={delay!r} is not like '5' or '5,30' (seconds)")
        if self.max_api_version is not None and not _API_VERSION.fullmatch(self.max_api_version):
            raise ValueError(f"API version {self.max_api_version!r} is not like '1.51'")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the server runs.

    :ivar directory: its state.
    :ivar port: the TCP port of its API, on 127.0.0.1.
    :ivar database_url: in SQLAlchemy's format.
    :ivar neutron_url: where its Neutron answers, when VIFs are attached for real.
    :ivar rpc_port: the TCP port of its conductor where there are several.
    :ivar rpc_host: the address of that port.
    """

    directory: Path
    port: int
    database_url: str
    neutron_url: str | None = None
    rpc_port: int | None = None
    rpc_host: str = "127.0.0.1"


def render(options: Options, place: Place, known: KnownInterfaces) -> str:
    """The text of ironic.conf.

    :param known: the names of the hardware interfaces of a kind that this Ironic has.
    """
    sections: dict[str, dict[str, str]] = {
        "DEFAULT": _default_section(options, place, known),
        "api": {"host_ip": "127.0.0.1", "port": str(place.port)},
        "conductor": {
            "automated_clean": str(options.automated_clean).lower(),
            "conductor_group": options.conductor_group,
            # Fake hardware reports what the database says, so a sync finds nothing.
            "sync_power_state_interval": "0",
            # Only what a crash leaves needs these; a test should not wait a minute for it.
            "check_allocations_interval": "5",
            "check_provision_state_interval": "5",
            "graceful_shutdown_timeout": "5",
            # One that gets no processor time for a minute is not dead, and there is no other.
            # On SQLite a conductor never writes a heartbeat at all.
            "heartbeat_timeout": "1000000",
        },
        # The page of a proxy that is not started here.
        "vnc": {"public_url": "http://127.0.0.1:6090/vnc_lite.html"},
        # A busy machine may take its time to start a console's program.
        "console": {"subprocess_timeout": "120"},
        # A stand-in for a BMC need not be spared.
        "ipmi": {"min_command_interval": "1"},
        "database": {"connection": place.database_url},
        "fake": {f"{name}_delay": delay for name, delay in sorted(options.delays.items())},
    }
    if place.database_url.startswith("sqlite"):
        # A test's data need not survive a power cut.
        sections["database"]["sqlite_synchronous"] = "false"
    else:
        # As many as the API's and the conductor's threads may want at once.
        sections["database"] |= {"max_pool_size": "20", "max_overflow": "80"}
    if place.neutron_url is not None:
        sections["neutron"] = {
            "auth_type": "none",
            "endpoint_override": place.neutron_url,
            "cleaning_network": CLEANING_NETWORK,
            "provisioning_network": CLEANING_NETWORK,
            "rescuing_network": CLEANING_NETWORK,
        }
    if options.conductors > 1:
        # One that is killed is taken over after the timeout, and its nodes asked of another one
        # after the interval as well.
        sections["DEFAULT"]["hash_ring_reset_interval"] = "3"
        sections["conductor"] |= {"heartbeat_interval": "2", "heartbeat_timeout": "15"}
        sections["api"]["api_workers"] = "1"
    if place.rpc_port is not None:
        # Ironic makes the conductor's name of both; its peers find it by that.
        sections["DEFAULT"] |= {"rpc_transport": "json-rpc", "host": place.rpc_host}
        sections["json_rpc"] = {"host_ip": place.rpc_host, "port": str(place.rpc_port)}
    for section, values in options.overrides.items():
        sections.setdefault(section, {}).update(values)
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())
        for name, values in sections.items()
        if values
    )


def _default_section(options: Options, place: Place, known: KnownInterfaces) -> dict[str, str]:
    default = {
        "state_path": str(place.directory),
        "host": "conductor-1",
        "my_ip": "127.0.0.1",
        "rpc_transport": "none",
        "auth_strategy": "noauth",
        "enabled_hardware_types": "fake-hardware",
        "enabled_network_interfaces": "flat,noop,neutron" if place.neutron_url else "noop",
        "default_network_interface": "flat" if place.neutron_url else "noop",
    }
    for kind, names in INTERFACES.items():
        enabled = [name for name in names if name in known(kind)]
        default[f"enabled_{kind}_interfaces"] = ",".join(enabled)
        default[f"default_{kind}_interface"] = enabled[0]
    if options.max_api_version is not None:
        default["pin_release_version"] = PINNED_RELEASE
    return default
