# SPDX-License-Identifier: Apache-2.0

"""Passwords that are made up can be typed."""

import random

from ironic_virt.compute import passwords


def test_each_has_all_kinds_of_symbols_and_none_that_is_mistaken() -> None:
    rng = random.Random(7)
    for _ in range(200):
        password = passwords.generate(rng)
        assert len(password) == 16
        passwords.check(password)
        assert any(symbol.isdigit() for symbol in password)
        assert any(symbol.islower() for symbol in password)
        assert any(symbol.isupper() for symbol in password)
        assert not set("0O1lI") & set(password)
