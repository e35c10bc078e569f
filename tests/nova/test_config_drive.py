# SPDX-License-Identifier: Apache-2.0

"""A server's config drive, as it has come to the real Ironic."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from typing import Any

import pytest
import sqlalchemy

from ironic_virt.testing import real_ironic
from tests.nova import figures
from tests.nova.deployment import OTHER_IMAGE, Deployment

pytestmark = pytest.mark.skipif(
    shutil.which("genisoimage") is None,
    reason="Nova makes config drives with genisoimage, which is not installed",
)

USER_DATA = "#!/bin/sh\necho told by the user who booted the server\n"
PASSWORD = "only-the-server-may-know"
_VOLUME_NAME = slice(16 * 2048 + 40, 16 * 2048 + 72)
"""Where an ISO 9660 image has its own name (ECMA-119, 8.4)."""


class ConfigDrive(Deployment):
    """What both drivers send."""

    __test__ = False

    @pytest.fixture(autouse=True)
    def _given(self, ironic: real_ironic.RealIronic) -> None:
        self._real = ironic

    def setUp(self) -> None:
        super().setUp()
        self.start_nova(self._real)

    def kept_by_ironic(self, node: str) -> dict[str, Any]:
        """A node's ``instance_info`` as its conductor has it; the API hides some of it."""
        engine = sqlalchemy.create_engine(self._real.database_url)
        self.addCleanup(engine.dispose)
        with engine.connect() as connection:
            (text,) = connection.execute(
                sqlalchemy.text("SELECT instance_info FROM nodes WHERE uuid = :node"),
                {"node": node},
            ).one()
        return json.loads(text)

    def boot_with_drive(self, networks: Any) -> dict[str, Any]:
        """Ask for a server that is told much."""
        self.start_service("compute", "compute1")
        return self.boot(
            "told-of-itself",
            networks,
            config_drive=True,
            user_data=base64.b64encode(USER_DATA.encode()).decode(),
            adminPass=PASSWORD,
            metadata={"colour": "green"},
        )

    def test_it_comes_to_ironic_whole_and_is_shown_to_nobody(self) -> None:
        (node,) = self.make_nodes(1)
        (port,) = self.ironic("GET", f"/ports?node={node}")["ports"]
        server = self.boot_with_drive([{"port": self.neutron.port_1["id"]}])
        self.wait_for(server, "ACTIVE")

        sent = self.kept_by_ironic(node)["configdrive"]
        image = gzip.decompress(base64.b64decode(sent))
        assert image[_VOLUME_NAME].decode().strip() == "config-2"
        # Files are stored as they are, each in one piece.
        assert USER_DATA.encode() in image
        told = (server["id"], "told-of-itself", '"colour": "green"', PASSWORD, port["address"])
        assert [text for text in told if text.encode() not in image] == []
        assert self.node(node)["instance_info"]["configdrive"] == "******"
        log = self.stdlog.logger.output
        assert node in log
        for secret in (PASSWORD, sent[:60]):
            assert secret not in log


class TestConfigDriveInTree(ConfigDrive):
    """Nova's own driver."""

    __test__ = True
    driver = figures.IN_TREE

    def test_it_fails_for_a_server_without_networks(self) -> None:
        (node,) = self.make_nodes(1)
        self.wait_for(self.boot_with_drive("none"), "ERROR")
        assert "configdrive" not in self.kept_by_ironic(node)


class TestConfigDrive(ConfigDrive):
    """Ours."""

    __test__ = True
    driver = figures.OURS

    def test_a_server_without_networks_has_one_too(self) -> None:
        (node,) = self.make_nodes(1)
        self.wait_for(self.boot_with_drive("none"), "ACTIVE")
        image = gzip.decompress(base64.b64decode(self.kept_by_ironic(node)["configdrive"]))
        assert USER_DATA.encode() in image

    def test_a_rebuild_for_which_none_can_be_made_leaves_the_server_as_it_is(self) -> None:
        (node,) = self.make_nodes(1)
        server = self.boot_with_drive("none")
        self.wait_for(server, "ACTIVE")
        before = self.kept_by_ironic(node)
        self.flags(mkisofs_cmd="a-program-that-is-not-there")
        self.act(server, rebuild={"imageRef": OTHER_IMAGE})
        told = self.until(
            lambda: self.told_by_the_events(server), lambda told: "config drive" in told
        )
        assert "the disk is as it was" in told
        self.wait_for(server, "ACTIVE")
        assert self.kept_by_ironic(node) == before
