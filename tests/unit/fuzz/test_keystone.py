# SPDX-License-Identifier: Apache-2.0

"""After any answer of Keystone and of the discovery, a request raises only our errors."""

from pathlib import Path

import pytest
import requests_mock
from oslo_config import cfg

from ironic_virt import conf, exceptions
from ironic_virt.baremetal.http.connection import KeystoneChannel
from tests.unit.baremetal import test_connection as usual
from tests.unit.fuzz import malformed


@pytest.mark.parametrize("wrong", ["token", "keystone", "ironic"])
def test_no_answer_before_the_first_raises_what_is_not_ours(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "ironic-virt.conf"
    path.write_text(f"[ironic]\n{usual.PASSWORD}\n")
    # Each takes a whole discovery, mostly keystoneauth1's code.
    for example in malformed.examples(wrong, share=20):
        with example, requests_mock.Mocker() as http:
            ask(http, example, wrong, conf.load([str(path)]))


def ask(
    http: requests_mock.Mocker, example: malformed.Example, wrong: str, options: cfg.ConfigOpts
) -> None:
    """Send a request where one answer is malformed at first, and all are right later."""
    whole = {
        "token": usual.catalog("public", "internal"),
        "keystone": usual.keystone_version(),
        "ironic": usual.versions(),
    }
    bodies = {name: malformed.encoded(body) for name, body in whole.items()}
    bodies[wrong] = example.document(whole[wrong])
    http.register_uri(requests_mock.ANY, requests_mock.ANY, status_code=404)
    http.get(usual.KEYSTONE, content=bodies["keystone"])
    tokens = f"{usual.KEYSTONE}/auth/tokens"
    http.post(tokens, content=bodies["token"], headers={"X-Subject-Token": "token"})
    http.get(usual.IRONIC, content=bodies["ironic"])
    http.get(f"{usual.IRONIC}/v1/nodes", json={"nodes": []})
    channel = KeystoneChannel.from_conf(options)
    # Where an answer leads elsewhere, keystoneauth1 goes on doing so.
    try:
        if channel.send("GET", "/nodes").status != 200:
            return
    except exceptions.IronicVirtError as error:
        if "can't be read" not in str(error):
            return
    # What was wrong once is forgotten.
    usual.serve_keystone(http, whole["token"])
    http.get(usual.IRONIC, json=whole["ironic"])
    assert channel.send("GET", "/nodes").body == b'{"nodes": []}'
