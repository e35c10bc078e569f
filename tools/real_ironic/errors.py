# SPDX-License-Identifier: Apache-2.0

"""Errors of the real Ironic before a test begins."""


class RealIronicError(Exception):
    """A real Ironic is not available; the message says why and what to do."""


class EnvironmentBuildError(RealIronicError):
    """Ironic's virtualenv could not be made.

    :ivar output: what the failed command printed, last lines only.
    """

    def __init__(self, message: str, output: str) -> None:
        super().__init__(f"{message}\n{output}" if output else message)
        self.output = output


class DatabaseError(RealIronicError):
    """No database server lets us in, and none can be started."""


class StartError(RealIronicError):
    """Ironic was started and did not come up.

    :ivar log_tail: the last lines of its log.
    """

    def __init__(self, message: str, log_tail: str) -> None:
        super().__init__(f"{message}\n{log_tail}" if log_tail else message)
        self.log_tail = log_tail
