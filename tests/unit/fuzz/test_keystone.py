# SPDX-License-Identifier: Apache-2.0

"""Whatever Keystone and a discovery answer, a request raises errors of ours only."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests_mock
from hypothesis import given
from hypothesis import strategies as st

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.http.connection import KeystoneChannel
from tests.unit.baremetal import test_connection as usual
from tests.unit.fuzz import malformed
from tests.unit.fuzz.test_files import in_a_directory

KEYSTONE = {
    "version": {
        "id": "v3.14",
        "status": "stable",
        "links": [{"rel": "self", "href": usual.KEYSTONE}],
    }
}


@pytest.mark.parametrize("wrong", ["token", "keystone", "ironic"])
@in_a_directory
@given(data=st.data())
def test_no_answer_before_the_first_raises_what_is_not_ours(
    wrong: str, data: st.DataObject, tmp_path: Path
) -> None:
    whole = {
        "token": usual.catalog("public", "internal"),
        "keystone": KEYSTONE,
        "ironic": usual.versions(),
    }
    bodies = {name: malformed.encoded(body) for name, body in whole.items()}
    bodies[wrong] = data.draw(malformed.documents(whole[wrong]))
    path = tmp_path / "ironic-virt.conf"
    path.write_text(f"[ironic]\n{usual.PASSWORD}\n")
    with requests_mock.Mocker() as http:
        http.register_uri(requests_mock.ANY, requests_mock.ANY, status_code=404)
        http.get(usual.KEYSTONE, content=bodies["keystone"])
        tokens = f"{usual.KEYSTONE}/auth/tokens"
        http.post(tokens, content=bodies["token"], headers={"X-Subject-Token": "token"})
        http.get(usual.IRONIC, content=bodies["ironic"])
        http.get(f"{usual.IRONIC}/v1/nodes", json={"nodes": []})
        channel = KeystoneChannel.from_conf(conf.load([str(path)]))
        with malformed.in_time():
            try:
                channel.send("GET", "/nodes")
            except exceptions.IronicVirtError as error:
                # Where it leads elsewhere, keystoneauth1 goes on doing so.
                if "can't be read" not in str(error):
                    return
        # What was wrong once is forgotten.
        http.get(usual.KEYSTONE, json=KEYSTONE)
        http.post(tokens, json=whole["token"], headers={"X-Subject-Token": "token"})
        http.get(usual.IRONIC, json=whole["ironic"])
        assert channel.send("GET", "/nodes").body == b'{"nodes": []}'
