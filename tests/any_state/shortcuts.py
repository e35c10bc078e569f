# SPDX-License-Identifier: Apache-2.0

"""What Nova's functional fixtures do again with each of many thousand requests, done once.

It is work of the fixtures' own, or it reads what nothing in a world changes.  What Nova
and Placement decide remains theirs.
"""

import copy
import datetime
import functools
import inspect
import types
from typing import Any
from unittest import mock

import jsonschema
import requests
import sqlalchemy
import webob
from nova import objects
from oslo_versionedobjects import base
from placement import attribute_cache, deploy
from requests.structures import CaseInsensitiveDict
from sqlalchemy import pool

_METHODS = ("get", "post", "put", "delete")
_HEARTBEAT = 120
"""Seconds; a service is down after 600."""
_CACHES = ("_id_cache", "_str_cache", "_all_cache")


class KeptConnections(pool.QueuePool):
    """Connections to SQLite that stay open; oslo.db opens and asks one for each transaction."""

    def __init__(self, creator: Any, **options: Any) -> None:
        super().__init__(creator, **{**options, "pool_size": 0, "pre_ping": False})


class _Names:
    """Numbers of Placement's classes and traits; each request would read all of them first."""

    def __init__(self) -> None:
        self._known: dict[type, dict[str, Any]] = {}
        self._read = attribute_cache._AttributeCache._refresh_from_db

    def start(self, cache: Any, context: Any) -> None:
        """Stand for ``__init__``."""
        cache._ctx = context
        vars(cache).update(self._known.get(type(cache), {name: {} for name in _CACHES}))

    def clear(self, cache: Any) -> None:
        self._known.pop(type(cache), None)
        vars(cache).update({name: {} for name in _CACHES})

    def read(self, cache: Any, context: Any) -> None:
        self._read(cache, context)
        self._known[type(cache)] = {name: vars(cache)[name] for name in _CACHES}


class _Schemas:
    """Stands for ``jsonschema`` in Placement: a schema is checked once, not each time."""

    def __init__(self) -> None:
        self._validators: dict[int, Any] = {}

    def validate(self, data: Any, schema: Any, format_checker: Any = None) -> None:
        # A validator has its schema, so no other one gets its id.
        if (validator := self._validators.get(id(schema))) is None:
            kind = jsonschema.validators.validator_for(schema)
            validator = kind(schema, format_checker=format_checker)
            self._validators[id(schema)] = validator
        validator.validate(data)


def _asking(method: str, app: Any, endpoint: str, token: str) -> Any:
    """A method of Nova's client of Placement, without an HTTP client and a connection."""

    def ask(
        client: Any, url: str, data: Any = None, version: Any = None, global_request_id: Any = None
    ) -> requests.Response:
        headers = {"x-auth-token": token, "accept": "application/json"}
        headers["openstack-api-version"] = f"placement {version or '1.0'}"
        request = webob.Request.blank(
            url, method=method.upper(), base_url=endpoint, headers=headers
        )
        if data is not None:
            request.content_type, request.json = "application/json", data
        answer = request.get_response(app)
        response = requests.Response()
        response.status_code, response.encoding = answer.status_code, "utf-8"
        response._content, response.url = answer.body, request.url
        response.headers = CaseInsensitiveDict(answer.headers)
        return response

    return ask


_make_alias = sqlalchemy.alias
_alias_of_table = functools.cache(_make_alias)


def _alias(selectable: Any, name: str | None = None, flat: bool = False) -> Any:
    """Placement makes each alias of a table, with all its columns, for each statement."""
    is_table = name and isinstance(selectable, sqlalchemy.Table)
    return (_alias_of_table if is_table else _make_alias)(selectable, name, flat)


class _Begin:
    """The text ``BEGIN``, which oslo.db would make a statement of for each transaction."""

    def _execute_on_connection(self, connection: sqlalchemy.engine.Connection, *_: Any) -> None:
        dbapi_connection: Any = connection.connection.dbapi_connection
        dbapi_connection.execute("BEGIN")


_make_text, _BEGIN = sqlalchemy.text, _Begin()


def _text(sql: str) -> Any:
    return _BEGIN if sql == "BEGIN" else _make_text(sql)


def _is_set(obj: base.VersionedObject, name: str) -> bool:
    """Stand for ``obj_attr_is_set``, which lists all fields first."""
    if name not in obj.fields and name not in obj.obj_extra_fields:
        raise AttributeError(f"{obj.obj_name()} has no {name}")
    return f"_obj_{name}" in vars(obj)


def _what_changed(obj: base.VersionedObject) -> set[str]:
    """Stand for ``obj_what_changed``, which asks that of each field three times."""
    values = vars(obj)
    parts = {name: values.get(f"_obj_{name}") for name in obj.fields}
    return {name for name in obj._changed_fields if name in obj.fields} | {
        name
        for name, part in parts.items()
        if isinstance(part, base.VersionedObject) and part.obj_what_changed()
    }


def take_before(case: Any) -> None:
    """Take those that have to be there before a case's fixtures."""
    names = _Names()
    faster = {"obj_attr_is_set": _is_set, "obj_what_changed": _what_changed}
    case.enterContext(mock.patch.multiple(base.VersionedObject, **faster))
    case.stub_out("sqlalchemy.alias", _alias)
    case.stub_out("sqlalchemy.text", _text)
    # A connection that is given back would make native threads change places.
    case.stub_out("oslo_db.sqlalchemy.engines._thread_yield", lambda *_: None)
    case.stub_out("sqlalchemy.pool.NullPool", KeptConnections)
    for name, of_names in {
        "__init__": names.start,
        "clear": names.clear,
        "_refresh_from_db": names.read,
    }.items():
        case.stub_out(f"placement.attribute_cache._AttributeCache.{name}", _as_method(of_names))
    stand_in = types.SimpleNamespace(
        validate=_Schemas().validate,
        ValidationError=jsonschema.ValidationError,
        FormatChecker=jsonschema.FormatChecker,
    )
    case.stub_out("placement.util.jsonschema", stand_in)
    # Nova looks up the arguments of the same functions with each call.
    case.stub_out("inspect.getfullargspec", functools.cache(inspect.getfullargspec))
    case.stub_out("nova.compute.utils.notify_about_instance_usage", lambda *_, **__: None)
    # A whole copy of a server is made of each change for who is notified, which is nobody.
    case.stub_out("nova.objects.Instance.obj_clone", copy.copy)
    case.flags(report_interval=_HEARTBEAT)
    # All that write servers are in this process, by one clock.
    case.stub_out("ironic_virt.nova.tracker._CLOCKS_APART", datetime.timedelta(seconds=1))
    # No server here has migrated.
    listed = "nova.objects.MigrationList.get_in_progress_and_error"
    case.stub_out(listed, lambda context, *_: objects.MigrationList(context, objects=[]))


def _as_method(of_names: Any) -> Any:
    return lambda cache, *arguments: of_names(cache, *arguments)


def take_after(case: Any) -> None:
    """Take those that stand before something of the fixtures."""
    # Nova's has each idle thread wake up a hundred times a second, so that a test ends sooner.
    case.stub_out("futurist._thread.ThreadWorker.MAX_IDLE_FOR", 1.0)
    fixture = case.placement.fixture
    app = deploy.deploy(fixture.conf_fixture.conf)
    for method in _METHODS:
        case.stub_out(
            f"nova.scheduler.client.report.SchedulerReportClient.{method}",
            _asking(method, app, fixture.endpoint, fixture.token),
        )
