# SPDX-License-Identifier: Apache-2.0

"""Which port a server is given."""

import ipaddress
from pathlib import Path

import pytest

from tools.real_ironic import ports


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What says which ports connections are given."""
    file = tmp_path / "ip_local_port_range"
    monkeypatch.setattr(ports, "_RANGE", file)
    return file


def test_it_is_none_that_a_connection_may_be_given(
    given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.write_text("10010\t60999\n")
    tried: list[int] = []

    def is_free(port: int) -> bool:
        tried.append(port)
        return port != 10003 and len(tried) > 1

    monkeypatch.setattr(ports, "_is_free", is_free)
    for _ in range(50):
        tried.clear()
        port = ports.free_port()
        assert port == tried[-1]
        assert 10000 <= port < 10010
        assert port != 10003
        assert len(tried) >= 2


@pytest.mark.parametrize("text", ["1024 65535", "10000 60999", "", "x y", None])
def test_the_system_chooses_where_it_gives_them_all_or_does_not_tell(
    given: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    if text is not None:
        given.write_text(text)

    class Probe:
        def __enter__(self) -> "Probe":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def bind(self, address: tuple[str, int]) -> None:
            assert address == ("127.0.0.1", 0)

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", 40000

    monkeypatch.setattr("socket.socket", Probe)
    assert ports.free_port() == 40000


def test_an_address_is_one_of_the_loopback_network_with_the_port_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[tuple[int, str]] = []

    def is_free(port: int, address: str) -> bool:
        tried.append((port, address))
        return len(tried) > 1

    monkeypatch.setattr(ports, "_is_free", is_free)
    found = ports.free_address(8089)
    assert tried[-1] == (8089, found)
    assert len(tried) == 2
    assert ipaddress.ip_address(found).is_loopback
