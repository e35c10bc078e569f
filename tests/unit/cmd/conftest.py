# SPDX-License-Identifier: Apache-2.0

"""What the tests of the commands share."""

from collections.abc import Iterator

import pytest

from tests import root_logger


@pytest.fixture(autouse=True)
def root_logger_kept() -> Iterator[None]:
    """Give the root logger back as it was."""
    with root_logger.kept():
        yield
