# SPDX-License-Identifier: Apache-2.0

"""Wrong input: an exit code, one clear line, no traceback, and nothing has changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_virt import virt
from ironic_virt.compute.db import Database
from tests import databases
from tests.functional.compute.commands import Commands
from tests.functional.compute.conftest import records_conf
from tests.functional.compute.stage import create_building, free_node, new_instance, register

IMAGE = "--image file:///images/a.raw"
NEW = "server create --flavor gold"
ASKED = (
    *("delete", "reboot", "rebuild", "rescue", "start", "stop", "unrescue", "dump create"),
    *("add interface", "remove interface"),
)
SHOWN = ("show", "diagnostics show", "console url show")
NODE = "9d1c54a0-0000-4000-8000-000000000001"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with some files."""
    here = tmp_path_factory.mktemp("here")
    (here / "binary").write_bytes(b"\xff\xfe\x00")
    (here / "private").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n")
    (here / "large").write_text("x" * 70_000)
    return here


@pytest.fixture(scope="module")
def filled(database_server: databases.Server, here: Path) -> Iterator[Database]:
    """Records with two servers of one name; for all tests, as none may change them."""
    with database_server.fresh(here) as url:
        db = Database(records_conf(here, url))
        db.open(make=True)
        db.flavors.create(virt.Flavor("gold"))
        register(db, "one")
        nodes = [free_node(db, "one") for _ in range(3)]
        for node in nodes[:2]:
            create_building(db, new_instance(display_name="twin"), node)
        yield db
        db.close()


@pytest.fixture
def db(filled: Database) -> Database:
    # However long ago the first of the tests has run, the service is up.
    register(filled, "one")
    return filled


@pytest.fixture
def run(db, here, capsys, monkeypatch) -> Commands:
    monkeypatch.chdir(here)
    return Commands(here / "records.conf", capsys, monkeypatch)


def state(db: Database) -> list[object]:
    return [
        [(one.uuid, one.task_state) for one in db.instances.list()],
        [(one.uuid, one.instance_uuid) for one in db.compute_nodes.list()],
        db.flavors.list(),
        [(one.host, one.disabled, one.forced_down) for one in db.services.list()],
    ]


@pytest.mark.parametrize(
    ("line", "code", "complaint"),
    [
        ("server", 2, "no command 'server'; 'ironic-virt help server' lists its commands"),
        ("server create", 2, "the following arguments are required: <server-name>, --fl"),
        (f"server create --flavor none {IMAGE} web", 1, "There is no flavor 'none'"),
        (f"{NEW} {IMAGE} web -c nonsense", 2, "--column nonsense: the columns are OS-EXT-SRV-A"),
        (f"{NEW} {IMAGE} web --count 2 -c fault", 2, "--column fault: the columns are ID, Name, "),
        (f"{NEW} {IMAGE} web --count 2 -f shell", 2, "argument -f: shell shows only one server"),
        (f"{NEW} {IMAGE} web --count 2 --port a", 2, "several servers can't share ports"),
        (f"{NEW} {IMAGE} web --port a --port a", 2, "a port is named twice"),
        (f"{NEW} {IMAGE} web --timeout 5", 2, "argument --timeout: only with --wait"),
        (f"{NEW} {IMAGE} web --key missing", 2, "--key missing: No such file or directory"),
        (f"{NEW} {IMAGE} web --key private", 2, "--key private: not a one-line SSH public key"),
        (f"{NEW} {IMAGE} web --key binary", 2, "--key binary: not UTF-8 text"),
        (f"{NEW} {IMAGE} web --key-name a", 2, "argument --key-name: only with --key"),
        (f"{NEW} {IMAGE} web --user-data .", 2, "--user-data .: Is a directory"),
        (f"{NEW} {IMAGE} web --user-data large", 2, "the user data has 70000 characters, more th"),
        (f"{NEW} --image a.raw web", 2, "the image 'a.raw' is neither an http(s)://, file:/// or"),
        (f"{NEW} {IMAGE} --node rack-1 web", 2, "argument --node: 'rack-1' is not a UUID"),
        (f"{NEW} {IMAGE} --node {NODE} web", 1, f"no compute node record for node {NODE}"),
        (f"{NEW} {IMAGE} --node {NODE} --count 2 web", 2, "several servers can't share a node"),
        ("server adopt --flavor gold rack-1", 2, "argument <node>: 'rack-1' is not a UUID"),
        *(
            (f"server {command} {name} {'v' if 'interface' in command else ''}", 1, complaint)
            for command in (*ASKED, *SHOWN)
            for name, complaint in (
                ("none", "There is no server 'none'"),
                ("twin", "2 servers are named 'twin': say which by uuid ("),
            )
        ),
        *(
            (f"server {command}", 2, "the following arguments are required: <server>")
            for command in (*ASKED, *SHOWN)
        ),
        *(
            (
                f"server {command} {'v' if 'interface' in command else ''} a --timeout 5",
                2,
                "argument --timeout: only with --wait",
            )
            for command in ASKED
        ),
        ("server delete twin --wait", 1, "2 servers are named 'twin': say which by uuid ("),
        ("server rebuild twin --image-checksum a", 2, "--image-checksum: only with --image"),
        ("server rescue none --password ", 2, "argument --password: expected one argument"),
        ("server rescue none --password=", 2, "the password is empty"),
        (f"{NEW} {IMAGE} web --port p --network address=192.0.2.1/24", 2, "not both"),
        *(
            (f"{NEW} {IMAGE} web --network address={text}", 2, "is not a host's address in ")
            for text in (
                *("192.0.2.0/24", "192.0.2.255/24", "224.0.0.9/24", "127.0.0.1/8", "0.0.0.0/32"),
                *("2001:db8::/64", "192.0.2.9/24,gateway=192.0.2.0", "10.0.0.9/8,gateway=fe80::1"),
                "2001:db8::9/64,gateway=fe80::1%eth0",
            )
        ),
        (f"{NEW} {IMAGE} web --network address=192.0.2.1/24,gateway=192.0.2.1", 2, "own address"),
        (f"{NEW} {IMAGE} {NODE.upper()}", 2, "a server's name can't have the form of a UUID"),
        ("server console url show none --rdp", 2, "unknown option '--rdp'"),
        ("server reboot none --hard --soft", 2, "argument --soft: not allowed with argum"),
        ("server list --status asleep", 2, "argument --status: invalid choice: 'ASLEEP' (choose"),
        ("node show rack-1", 2, "argument <uuid>: 'rack-1' is not a UUID"),
        (f"node show {NODE}", 1, f"There is no compute node record for node {NODE}"),
        ("server show \udcff", 2, r"argument <server>: '\udcff': a name must have 1 to 255 "),
        ("flavor create x --property a=\udcff", 2, r"--property: 'a=\udcff' is not UTF-8"),
        (f"{NEW} --image file:///\udcff web", 2, r"the image 'file:///\udcff' is neither an ht"),
        ("server rebuild none --image=", 2, "the image '' is neither an http(s)://, file:/// or"),
        ("service set one", 2, "nothing to set: use --enable, --disable, --up or --down"),
        ("service set none --disable", 1, "There is no compute service 'none'"),
        ("service set one --enable --disable-reason x", 2, "--disable-reason: only with"),
        ("service delete one", 1, "service 'one' can't be deleted: it is up; stop it first"),
        ("flavor create gold", 1, "There is a flavor 'gold' already"),
        (f"{NEW} {IMAGE} web --user-data /dev/zero", 2, "the file has more than 1048576 bytes"),
        ("server rescue none --password-file /dev/zero", 2, "the password has more than 128"),
        ("flavor create x --property resources:A=b", 2, "x: the value of resources:A must be a"),
        *(
            (f"flavor create x --property {wrong}=1", 2, f"did you mean {meant}?")
            for wrong, meant in (
                ("resources:custom_gold", "resources:CUSTOM_GOLD"),
                ("resource:CUSTOM_GOLD", "resources:CUSTOM_GOLD"),
                ("Resources2:gold.8", "resources2:CUSTOM_GOLD_8"),
                ("resources:vcpu", "resources:VCPU"),
            )
        ),
        ("flavor create x --property a", 2, "argument --property: 'a' is not KEY=VALUE"),
        ("flavor create x --property =b", 2, "argument --property: '=b' is not KEY=VALUE"),
        ("flavor create x --property trait:=required", 2, "trait:=required: it names nothing"),
        ("flavor create x --property resources:CUSTOM_A=00", 2, "A=00: it asks for none"),
        ("flavor create x --trait A --property trait:A=forbidden", 2, "contradicts --trait"),
        ("flavor create x --resource-class a --property resources:CUSTOM_A=2", 2, "contradicts"),
        ("flavor show none", 1, "There is no flavor 'none'"),
        ("flavor delete none", 1, "There is no flavor 'none'"),
        ("--config-file missing node list", 2, "--config-file missing: No such file or directory"),
        ("node list --config-file .", 2, "--config-file .: Is a directory"),
        ("node list --config-file private", 2, "--config-file: not an ini file: "),
    ],
)
def test_wrong_input_is_refused(run, db, line, code, complaint) -> None:
    before = state(db)
    result = run(*line.split())
    assert (result.code, result.out) == (code, "")
    assert complaint in result.err
    assert result.err.count("\n") == 1
    assert "secret" not in result.err
    assert state(db) == before
