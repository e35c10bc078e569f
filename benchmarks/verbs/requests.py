# SPDX-License-Identifier: Apache-2.0

"""Each verb of Nova's API on a server, as a request."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.nova.deployment import OTHER_IMAGE

VOLUME = "5f0e7a3c-0000-4000-8000-00000000000{}"
ROOT, DATA, MORE = (VOLUME.format(number) for number in range(3))
PORT = "ce531f90-199f-48c0-816c-13e38010b442"
OTHER_FLAVOR = "other"


class Verb(NamedTuple):
    """A request about a server.

    :ivar path: below ``/servers/UUID``.
    :ivar is_short: done when it is answered: nothing of it is recorded as an action with events.
    :ivar version: of Nova's API.
    :ivar makes: what is new if it succeeds, where no action says that it has failed.
    """

    method: str
    path: str
    body: Any = None
    is_short: bool = False
    version: str = "2.96"
    makes: str = ""


def _action(name: str, content: Any = None, **more: Any) -> Verb:
    return Verb("POST", "/action", {name: content}, **more)


def _short(method: str, path: str, body: Any = None, **more: Any) -> Verb:
    return Verb(method, path, body, is_short=True, **more)


_VOLUMES = "/os-volume_attachments"
VERBS: dict[str, Verb] = {
    "show diagnostics": _short("GET", "/diagnostics"),
    "show the topology": _short("GET", "/topology"),
    "show console output": _action("os-getConsoleOutput", {}, is_short=True),
    "get a serial console": _short(
        "POST", "/remote-consoles", {"remote_console": {"protocol": "serial", "type": "serial"}}
    ),
    "get a VNC console": _short(
        "POST", "/remote-consoles", {"remote_console": {"protocol": "vnc", "type": "novnc"}}
    ),
    "show the password": _short("GET", "/os-server-password"),
    "clear the password": _short("DELETE", "/os-server-password"),
    "rename": _short("PUT", "", {"server": {"name": "renamed"}}),
    "set metadata": _short("POST", "/metadata", {"metadata": {"key": "value"}}),
    "delete metadata": _short("DELETE", "/metadata/key"),
    "set tags": _short("PUT", "/tags", {"tags": ["tag"]}),
    "add a security group": _action("addSecurityGroup", {"name": "default"}, is_short=True),
    "remove a security group": _action("removeSecurityGroup", {"name": "default"}, is_short=True),
    "inject network info": _action("injectNetworkInfo", is_short=True),
    "reset the network": _action("resetNetwork", is_short=True),
    "add a fixed IP": _action("addFixedIp", {"networkId": PORT}, is_short=True, version="2.43"),
    "add a share": _short(
        "POST", "/shares", {"share": {"share_id": PORT, "tag": "share"}}, version="2.97"
    ),
    "change the password": _action("changePassword", {"adminPass": "swordfish"}, is_short=True),
    "pause": _action("pause"),
    "unpause": _action("unpause"),
    "suspend": _action("suspend"),
    "resume": _action("resume"),
    "create an image": _action("createImage", {"name": "copy"}, makes="Glance.images"),
    "create a backup": _action(
        "createBackup", {"name": "copy", "backup_type": "daily", "rotation": 1}
    ),
    "resize": _action("resize", {"flavorRef": OTHER_FLAVOR}),
    "confirm a resize": _action("confirmResize"),
    "revert a resize": _action("revertResize"),
    "migrate": _action("migrate"),
    "migrate live": _action("os-migrateLive", {"host": None, "block_migration": "auto"}),
    "evacuate": _action("evacuate", {}),
    "restore": _action("restore"),
    "unshelve": _action("unshelve"),
    "offload": _action("shelveOffload"),
    "unrescue": _action("unrescue"),
    "attach a volume": Verb("POST", _VOLUMES, {"volumeAttachment": {"volumeId": DATA}}),
    "swap a volume": Verb(
        "PUT", f"{_VOLUMES}/{DATA}", {"volumeAttachment": {"volumeId": MORE}}, is_short=True
    ),
    "detach a volume": Verb("DELETE", f"{_VOLUMES}/{DATA}"),
    "attach an interface": Verb(
        "POST", "/os-interface", {"interfaceAttachment": {"port_id": PORT}}
    ),
    "detach an interface": Verb("DELETE", f"/os-interface/{PORT}"),
    "crash dump": _action("trigger_crash_dump"),
    "lock": _action("lock", {}, is_short=True),
    "unlock": _action("unlock", is_short=True),
    "start": _action("os-start"),
    "reboot, soft": _action("reboot", {"type": "SOFT"}),
    "reboot, hard": _action("reboot", {"type": "HARD"}),
    "stop": _action("os-stop"),
    "rescue": _action("rescue", {}),
    "rebuild, up to 2.92": _action("rebuild", {"imageRef": OTHER_IMAGE}, version="2.92"),
    "rebuild": _action("rebuild", {"imageRef": OTHER_IMAGE}),
    "shelve": _action("shelve"),
    "reset to active": _action("os-resetState", {"state": "active"}, is_short=True),
    "reset to error": _action("os-resetState", {"state": "error"}, is_short=True),
    "force delete": _action("forceDelete"),
    "delete": Verb("DELETE", ""),
}
"""Those that change least come first: the next one may have the same server."""
