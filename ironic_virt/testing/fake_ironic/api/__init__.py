# SPDX-License-Identifier: Apache-2.0

"""The handlers, a module for each resource.

A handler takes a :class:`~ironic_virt.testing.fake_ironic.web.Request` and the
parts of the URL, and returns an
:class:`~ironic_virt.testing.fake_ironic.web.Answer` or raises an
:class:`~ironic_virt.testing.fake_ironic.errors.ApiError`.  It holds the
application's lock.  Each module lists its routes in ``ROUTES``.
"""
