# SPDX-License-Identifier: Apache-2.0

"""Questions whose answer, or error, all share who ask meanwhile."""

import traceback

import pytest

from ironic_virt import exceptions
from ironic_virt.baremetal.http.single_flight import SingleFlight


def test_who_shares_an_error_adds_notes_to_a_copy() -> None:
    shared = exceptions.IronicUnreachable("it is away", node="n", retry_after=3.0)
    shared.add_note("of all")
    told = [exceptions.copy_of(shared) for _ in range(2)]
    for number, error in enumerate(told):
        error.add_note(f"of server {number}")
    assert [error.__notes__ for error in told] == [
        ["of all", "of server 0"],
        ["of all", "of server 1"],
    ]
    assert shared.__notes__ == ["of all"]
    assert {type(error) for error in told} == {exceptions.IronicUnreachable}
    assert {(str(error), vars(error)["retry_after"]) for error in told} == {(str(shared), 3.0)}


def test_a_traceback_shows_a_shared_error_once_with_its_cause() -> None:
    def ask() -> None:
        try:
            raise OSError("no route")
        except OSError as exc:
            raise exceptions.IronicUnreachable("it is away") from exc

    with pytest.raises(exceptions.IronicUnreachable) as caught:
        SingleFlight[None]().run(ask)
    text = "".join(traceback.format_exception(caught.value))
    assert text.count("IronicUnreachable: Ironic: it is away") == 1
    assert text.count("OSError: no route") == 1
    assert "in ask" in text.partition("direct cause")[2]
