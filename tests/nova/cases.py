# SPDX-License-Identifier: Apache-2.0

"""Nova's test cases under pytest."""

from typing import Any
from unittest import mock

import openstack.proxy

_get_endpoint = openstack.proxy.Proxy.get_endpoint


def let_ironic_be_found(case: Any) -> None:
    """Undo a part of Nova's fixtures, which keep openstacksdk from finding any endpoint."""
    case.stub_out("openstack.proxy.Proxy.get_endpoint", _endpoint_of_ironic)


def _endpoint_of_ironic(proxy: Any, *args: Any, **kwargs: Any) -> Any:
    if proxy.service_type == "baremetal":
        return _get_endpoint(proxy, *args, **kwargs)
    return mock.MagicMock()


class UnderPytest:
    """Comes before Nova's class among the bases of a test case."""

    def _clear_attrs(self) -> None:
        # Nova's own takes away what pytest wants to take away itself.
        held = getattr(self, self._testMethodName)
        super()._clear_attrs()
        setattr(self, self._testMethodName, held)

    def _get_test_method(self) -> Any:
        # pytest makes an instance for no test, which older releases of testtools refuse.
        return getattr(self, self._testMethodName, None)
