# SPDX-License-Identifier: Apache-2.0

"""A real Ironic that boots nodes over the network: what it fetches, and what it makes of it.

Its deploy interfaces do all that they do for hardware: they fetch an image's parts, write the
boot script and the kickstart file, and wait for who runs on the node.  No node ever reads any
of it, so the tests read it, and play the installer.
"""

import functools
import json
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from tools import real_ironic

API = "http://ironic.example.test"
"""The URL of Ironic's API in the files for nodes."""

KICKSTART = """liveimg --url {{ ks_options.liveimg_url }}
{{ ks_options.config_drive }}
heartbeat {{ ks_options.agent_token }} {{ ks_options.heartbeat_url }}
"""

_GLANCE = re.compile(r"/v2/images/(?P<id>[^/]+)(?P<data>/file)?")
_HEARTBEAT_VERSION = "1.72"
TURN_SECONDS = 180


class Images:
    """Files that a server has by URL, and images that it has in the manner of Glance.

    :ivar directory: where the files are.
    :ivar url: the server.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._glance: dict[str, dict[str, Any]] = {}
        self.url = ""

    def file(self, name: str, content: str | None = None) -> str:
        """The URL of a file; in it stands its name, unless something else is to."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name if content is None else content)
        return f"{self.url}/{name}"

    def in_glance(self, name: str, **properties: str) -> str:
        """The id of an image in Glance, with its name for data."""
        image = str(uuid.uuid4())
        self._glance[image] = {
            "id": image,
            "name": name,
            "status": "active",
            "visibility": "public",
            "container_format": "bare",
            "disk_format": "raw",
            "size": len(name),
            **properties,
        }
        return image

    def answer(self, path: str) -> tuple[HTTPStatus, bytes] | None:
        """What Glance says; ``None``: it isn't asked."""
        if path == "/":
            link = {"rel": "self", "href": f"{self.url}/v2/"}
            version = {"id": "v2.16", "status": "CURRENT", "links": [link]}
            return HTTPStatus.MULTIPLE_CHOICES, json.dumps({"versions": [version]}).encode()
        match = _GLANCE.fullmatch(path)
        if match is None:
            return None
        image = self._glance.get(match["id"])
        if image is None:
            return HTTPStatus.NOT_FOUND, b"{}"
        return HTTPStatus.OK, (
            str(image["name"]).encode() if match["data"] else json.dumps(image).encode()
        )


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *args: Any, images: Images, directory: str) -> None:
        self._images = images
        super().__init__(*args, directory=directory)

    def do_GET(self) -> None:
        answer = self._images.answer(self.path)
        if answer is None:
            super().do_GET()
            return
        status, body = answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Ironic's own log has it."""


@contextmanager
def serve_images(directory: Path) -> Iterator[Images]:
    """Images, for as long as the block lasts."""
    images = Images(directory)
    handler = functools.partial(_Handler, images=images, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        images.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield images
        finally:
            server.shutdown()
            thread.join()


class BootFiles:
    """What an Ironic has laid out for its nodes to boot.

    :ivar images: what it is made of.
    :ivar url: the URL of the files for nodes.
    """

    def __init__(self, images: Images) -> None:
        self.images = images
        self._directory = images.directory / "boot"
        self.url = f"{images.url}/boot/http"
        for name in ("http", "tftp", "master", "images", "isos"):
            (self._directory / name).mkdir(parents=True)

    def options(self) -> real_ironic.Options:
        """For an Ironic that lays it out."""
        images = self.images
        there = {name: str(self._directory / name) for name in ("http", "tftp", "master")}
        overrides: Mapping[str, Mapping[str, str]] = {
            "DEFAULT": {
                "enabled_boot_interfaces": "fake,ipxe,pxe",
                "enabled_deploy_interfaces": "fake,ramdisk,anaconda,direct,autodetect",
                "autodetect_deploy_interfaces": "ramdisk,direct",
                "enabled_vendor_interfaces": "fake,no-vendor,ipmitool",
            },
            # What Ironic sends to a BMC can't be seen otherwise.
            "api": {"disallow_deploy_steps": ""},
            "conductor": {
                "deploy_kernel": images.file("agent.kernel"),
                "deploy_ramdisk": images.file("agent.ramdisk"),
            },
            "deploy": {
                "http_url": self.url,
                "http_root": there["http"],
                "iso_master_path": str(self._directory / "isos"),
            },
            "dhcp": {"dhcp_provider": "none"},
            "glance": {"auth_type": "none", "endpoint_override": images.url},
            "pxe": {
                "tftp_root": there["tftp"],
                "tftp_master_path": there["master"],
                "images_path": str(self._directory / "images"),
                "instance_master_path": str(self._directory / "images"),
            },
            "service_catalog": {"endpoint_override": API},
        }
        # Its agent would be waited for.
        return real_ironic.Options(automated_clean=False, overrides=overrides)

    def text(self, node: str, name: str, *, root: str = "http") -> str:
        """A file of a node's: ``config`` is the boot script, ``ks.cfg`` the kickstart."""
        return (self._directory / root / node / name).read_text()

    def of(self, node: str) -> list[str]:
        """The names of all that is there for a node, links to it among them."""
        return sorted(
            found.name
            for root in ("http", "tftp")
            for found in (self._directory / root).rglob("*")
            if node in str(found.resolve()) and not found.is_dir()
        )


class Installer:
    """Anaconda, as far as Ironic notices: it reads the kickstart file and reports."""

    def __init__(self, ironic: real_ironic.RealIronic, boot_files: BootFiles) -> None:
        self._url = ironic.url
        self._boot_files = boot_files

    def report(self, node: str, status: str, message: str) -> None:
        """Say how far the installation is: ``start``, ``end`` or ``error``."""
        kickstart = self._boot_files.text(node, "ks.cfg")
        match = re.search(r"^heartbeat (?P<token>\S+) (?P<url>\S+)$", kickstart, re.M)
        assert match is not None, kickstart
        body = {
            "callback_url": "",
            "agent_token": match["token"],
            "agent_status": status,
            "agent_status_message": message,
        }
        retry = threading.Event()
        for _ in range(10 * TURN_SECONDS):
            answer = requests.post(
                match["url"].replace(API, self._url),
                json=body,
                headers={"X-OpenStack-Ironic-API-Version": _HEARTBEAT_VERSION},
                timeout=TURN_SECONDS,
            )
            if answer.status_code != HTTPStatus.CONFLICT:
                break
            # Ironic still works on the node; the real one is slower.
            retry.wait(0.1)
        assert answer.status_code == HTTPStatus.ACCEPTED, answer.text
