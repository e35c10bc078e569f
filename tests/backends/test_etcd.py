# SPDX-License-Identifier: Apache-2.0

"""etcd with several members, with users and passwords, and over TLS."""

import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
import requests

from ironic_virt import exceptions, standby
from ironic_virt.standby import ToozLock
from ironic_virt.testing.fault_proxy import FaultProxy, Hang
from tests.backends.servers import Backend, backend
from tools.real_ironic.ports import free_port

TTL = 10


@pytest.fixture
def etcd() -> Iterator[Backend]:
    with backend("etcd") as made:
        yield made


def succeeds(action: Callable[[], bool], attempts: int) -> bool:
    for _ in range(attempts):
        try:
            return action()
        except exceptions.StandbyBackendFailed:
            time.sleep(0.1)
    return False


def test_a_lease_survives_the_loss_of_the_member_that_is_asked(etcd: Backend) -> None:
    target = etcd.url.partition("+")[2]
    with FaultProxy(target) as one, FaultProxy(target) as other:
        members = [proxy.url.partition("//")[2] for proxy in (one, other)]
        lock = ToozLock(f"etcd3+http://{','.join(members)}", TTL)
        assert lock.acquire("compute1")
        hang = one.add(Hang())
        with pytest.raises(exceptions.StandbyBackendFailed, match=members[0]):
            lock.renew()
        assert hang.hits
        assert lock.renew(), "by the other one"
        other.add(Hang())
        one.rules.clear()
        assert succeeds(lock.renew, 2)


def test_a_member_that_is_away_at_the_start_is_passed_over(etcd: Backend) -> None:
    url = f"etcd3+http://127.0.0.1:{free_port()},127.0.0.1:{etcd.port}"
    lock = ToozLock(url, TTL)
    with pytest.raises(exceptions.StandbyBackendFailed):
        lock.acquire("compute1")
    assert lock.acquire("compute1")
    assert standby.look_at_lease(url, TTL, "", "compute1").age is not None


def test_a_token_that_etcd_does_not_know_is_asked_for_again(etcd: Backend) -> None:
    def post(path: str, **body: str) -> None:
        answer = requests.post(f"http://127.0.0.1:{etcd.port}/v3/{path}", json=body, timeout=10)
        answer.raise_for_status()

    post("auth/user/add", name="root", password="pass/word")
    post("auth/role/add", name="root")
    post("auth/user/grant", user="root", role="root")
    post("auth/enable")
    address = f"127.0.0.1:{etcd.port}"
    with pytest.raises(exceptions.StandbyBackendFailed, match="user name is empty"):
        ToozLock(f"etcd3+http://{address}", TTL).acquire("compute1")
    with pytest.raises(exceptions.StandbyBackendFailed, match=address) as caught:
        ToozLock(f"etcd3+http://root:wrong@{address}", TTL).acquire("compute1")
    assert "wrong" not in str(caught.value)
    lock = ToozLock(f"etcd3+http://root:pass%2Fword@{address}", TTL)
    assert lock.acquire("compute1")
    lock._coordinator.client.session.headers["Authorization"] = "expired.1"
    assert succeeds(lock.renew, 2)


def test_over_tls_the_certificates_are_options_of_the_url(tmp_path, monkeypatch) -> None:
    # requests prefers them.
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    certificate, key = tmp_path / "etcd.pem", tmp_path / "etcd.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=etcd", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    options = {
        **{f"{which}_client_urls": "https://127.0.0.1:PORT" for which in ("listen", "advertise")},
        "cert_file": str(certificate),
        "key_file": str(key),
        "trusted_ca_file": str(certificate),
    }
    with backend("etcd", **options) as server:
        url = f"etcd3+https://127.0.0.1:{server.port}?ca_cert={certificate}"
        lock = ToozLock(f"{url}&cert_cert={certificate}&cert_key={key}", TTL)
        # It listens before it serves.
        assert succeeds(lambda: lock.acquire("compute1"), 100)
        assert lock.renew()
        with pytest.raises(exceptions.StandbyBackendFailed):
            ToozLock(url, TTL).acquire("compute2")
