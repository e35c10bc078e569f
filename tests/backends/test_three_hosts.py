# SPDX-License-Identifier: Apache-2.0

"""The start page with three hosts, followed to the letter, on a MariaDB."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests import databases
from tests.functional.procedures.site import Site

PAGE = "../start/three_hosts"
RACKS = ("rack-a", "rack-b", "rack-c")

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def mariadb() -> Iterator[sa.URL]:
    """A server, and the name of a database that is not yet on it; both go in the end."""
    name = f"ironic_virt_{secrets.token_hex(6)}"
    with databases.server(databases.MARIADB) as server:
        try:
            yield sa.make_url(server.url).set(database=name)
        finally:
            databases.execute(server.url, f"DROP DATABASE IF EXISTS {name}")
            databases.execute(server.url, f"DROP USER IF EXISTS {name}")


@pytest.fixture
def site(tmp_path: Path, server: FakeIronicServer) -> Iterator[Site]:
    """All three hosts; the page brings its own ironic-virt.conf."""
    site = Site(tmp_path, server.url, "none")
    yield site
    site.close()


def write_login(site: Site, url: sa.URL) -> None:
    """What the client of an administrator on the database's host knows."""
    login = {"user": url.username, "password": url.password, "host": url.host, "port": url.port}
    login["socket"] = url.query.get("unix_socket")
    lines = [f"{name} = {value}\n" for name, value in login.items() if value]
    (site.home / ".my.cnf").write_text("[client]\n" + "".join(lines))


def test_three_hosts_share_a_mariadb(site, server, mariadb) -> None:
    nodes = {
        server.fake.add_node(name=f"{rack}-01", resource_class="gold"): rack for rack in RACKS
    }
    write_login(site, mariadb)
    name = mariadb.database
    assert name is not None
    records = mariadb.set(username=name, password="change-me").render_as_string(False)
    site.follow(
        PAGE,
        {
            "mysql+pymysql://ironic_virt:change-me@db.example.org/ironic_virt": "RECORDS",
            "ironic_virt": name,
            "RECORDS": records,
            "http://ironic.example.org:6385": server.url,
            "[database]": f"[DEFAULT]\nstate_path = {site.home}\n[database]",
        },
    )
    assert site.owners() == nodes
    rows = site.read("ironic-virt server list --long")
    assert sorted(row["Host"] for row in rows) == list(RACKS)
    assert {row["Status"] for row in rows} == {"ACTIVE"}
    assert {row["Node"]: row["Host"] for row in rows} == nodes
    assert site.services() | {"rack-c": ""} == {"rack-a": "up", "rack-b": "up", "rack-c": ""}
