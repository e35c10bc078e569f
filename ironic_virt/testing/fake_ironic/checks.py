# SPDX-License-Identifier: Apache-2.0

"""Arguments of requests: what Ironic accepts for each type, and what it says
to the rest."""

import re
import uuid as _uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jsonschema
import os_traits  # type: ignore[import-untyped]

from ironic_virt.testing.fake_ironic import errors

Parser = Callable[[str, Any], Any]

_TRUE = ("1", "t", "true", "on", "y", "yes")
_FALSE = ("0", "f", "false", "off", "n", "no")
_NAME = re.compile(r"[A-Za-z0-9._~-]+")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")


def is_uuid(value: object) -> bool:
    """Whether it reads as a UUID, with or without dashes."""
    text = str(value)
    try:
        digits = str(_uuid.UUID(text)).replace("-", "")
    except ValueError:
        return False
    bare = text.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "").lower()
    return digits == bare


def is_name(value: object, minor: int = 10) -> bool:
    """Whether it can be a node's name in version 1.``minor``."""
    if not isinstance(value, str) or len(value) > 255:
        return False
    return bool((_NAME if minor >= 10 else _HOST_NAME).fullmatch(value))


UUID_OR_NAME: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "format": "uuid"},
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "pattern": "(?i)^[A-Z0-9-._~]+$",
        },
    ]
}

#: A trait as a JSON schema.
TRAIT: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "anyOf": [
        {"pattern": "^CUSTOM_[A-Z0-9_]+$"},
        {"enum": os_traits.get_traits()},
    ],
}


def string(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise errors.invalid(f"Expected string for {name}: {value}")
    return value


def boolean(name: str, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    accepted = ", ".join(f"'{item}'" for item in sorted(_TRUE + _FALSE))
    raise errors.invalid(
        f"Invalid {name}: Unrecognized value '{value}', acceptable values are: {accepted}"
    )


def integer(name: str, value: Any) -> int | None:
    if value is None:
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise errors.invalid(f"Expected an integer for {name}: {value}") from None


def uuid(name: str, value: Any) -> str | None:
    if value is not None and not is_uuid(value):
        raise errors.invalid(f"Expected UUID for {name}: {value}")
    return None if value is None else str(value)


def uuid_or_name(name: str, value: Any) -> str | None:
    if value is not None and not is_uuid(value) and not is_name(value):
        raise errors.invalid(f"Expected UUID or name for {name}: {value}")
    return None if value is None else str(value)


def string_list(name: str, value: Any) -> list[str] | None:
    """A comma-separated list; in lower case and without repetitions, as Ironic has it."""
    if value is None:
        return None
    if isinstance(value, list):
        return [str(string(name, item)) for item in value]
    text = string(name, value) or ""
    items = [item.strip().lower() for item in text.split(",")]
    return list(dict.fromkeys(item for item in items if item))


def mac_address(name: str, value: Any) -> str | None:
    if value is None:
        return None
    text = str(value).lower()
    if not _MAC.fullmatch(text):
        raise errors.invalid(f"Expected valid MAC address for {name}: {value}")
    return text


def anything(name: str, value: Any) -> Any:
    return value


PAGING: dict[str, Parser] = {
    "marker": uuid,
    "limit": integer,
    "sort_key": string,
    "sort_dir": string,
}


def parse(
    given: Mapping[str, Any], parsers: Mapping[str, Parser], required: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The arguments of a request, parsed.

    :param given: from the query and the body.
    :param parsers: the arguments that exist.
    :param required: those that must be given.
    :returns: the parsed value of each argument, None where not given.
    :raises ApiError: 400 for an unknown, missing or malformed one.
    """
    unknown = [name for name in given if name not in parsers]
    if unknown:
        raise errors.invalid(f"Unexpected arguments: {', '.join(unknown)}")
    values = dict.fromkeys(parsers)
    for name, parser in parsers.items():
        if name in given:
            values[name] = parser(name, given[name])
        elif name in required:
            raise errors.invalid(f"Missing mandatory parameter: {name}")
    return values


#: id of a schema -> the schema, which keeps its id taken, and its validator.
_VALIDATORS: dict[int, tuple[Mapping[str, Any], Any]] = {}


def _compiled(schema: Mapping[str, Any]) -> Any:
    formats = jsonschema.FormatChecker(formats=["uuid"])
    return jsonschema.Draft202012Validator(schema, format_checker=formats)


def schema_error(
    value: Any, schema: Mapping[str, Any]
) -> jsonschema.exceptions.ValidationError | None:
    """What is wrong with a value by a JSON schema, the most telling error of all.

    :param schema: one that lives as long as the process.
    """
    if id(schema) not in _VALIDATORS:
        _VALIDATORS[id(schema)] = schema, _compiled(schema)
    validator = _VALIDATORS[id(schema)][1]
    if validator.is_valid(value):
        return None
    error: jsonschema.exceptions.ValidationError = jsonschema.exceptions.best_match(
        validator.iter_errors(value)
    )
    return error


def check_selection(fields: Iterable[str] | None, known: Iterable[str]) -> None:
    """Refuse to select fields that a resource does not have.

    :raises ApiError: 400.
    """
    names = sorted(known)
    for field in fields or ():
        if field not in names:
            raise errors.invalid(f"Schema error: '{field}' is not one of {names}")


def check_schema(name: str | None, value: Any, schema: Mapping[str, Any]) -> None:
    """Check a body against a JSON schema.

    :param name: what Ironic calls the value, where it gives it a name.

    :raises ApiError: 400, with the validator's reason.
    """
    error = schema_error(value, schema)
    if error is None:
        return
    message = f"Schema error{f' for {name}' if name else ''}: {error.message}"
    cause = None
    current: Any = error
    while current.context:
        current = jsonschema.exceptions.best_match(current.context)
        cause = current.message
    if cause is not None:
        message += f". Possible root cause: {cause}"
    raise errors.invalid(message)
