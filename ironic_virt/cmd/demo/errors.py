# SPDX-License-Identifier: Apache-2.0

"""What can go wrong in the demo besides the driver's own errors."""

from ironic_virt import exceptions


class DemoFailed(exceptions.IronicVirtError):
    """The demo can't go on; the message is one line for whoever runs it."""


class Interrupted(BaseException):
    """A signal asked the demo to end.

    No :class:`Exception`, so that nothing on the way mistakes it for a failure.

    :ivar signum: the signal's number.
    """

    def __init__(self, signum: int) -> None:
        self.signum = signum
        super().__init__(signum)

    @property
    def exit_code(self) -> int:
        """As shells report a program that a signal ended."""
        return 128 + self.signum
