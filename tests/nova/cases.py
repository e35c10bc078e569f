# SPDX-License-Identifier: Apache-2.0

"""Nova's test cases under pytest."""

from __future__ import annotations


class UnderPytest:
    """Comes before Nova's class among the bases of a test case."""

    def _clear_attrs(self) -> None:
        # Nova's own takes away what pytest wants to take away itself.
        held = getattr(self, self._testMethodName)
        super()._clear_attrs()
        setattr(self, self._testMethodName, held)
