# SPDX-License-Identifier: Apache-2.0

"""The names of pools: which nodes, and whose, and the same after a restart.

Pure functions.
"""

from __future__ import annotations

import functools
import hashlib
import re
import urllib.parse
import uuid

from ironic_virt.request.spec import CUSTOM, placement_class

_NAMESPACE = uuid.UUID("3b0a5cf7-2b6e-4f0c-9a57-6f2f0e1d8c11")
_PART = r"(?:[\w.-]|~~[0-9A-F]{2})+"
_DIGEST = r"(?P<digest>[0-9a-f]{10})"
_NAME = re.compile(rf"(?P<class>{_PART})(~{_DIGEST})?~(?P<host>{_PART})", re.ASCII)
_LIKE_A_KIND = re.compile(rf".+\+{_DIGEST}", re.DOTALL)
_LONGEST_CLASS = 100
"""Characters of a class in a name, which fits in Placement's column of 200 with the host."""

Kind = tuple[str, frozenset[str]]
"""A resource class and a set of traits."""


def pool_name(host: str, kind: Kind) -> str:
    """The name of a pool, ``gold~compute1``, or ``gold~3f2a9c10de~compute1`` with traits.

    Ironic takes it for the name of a node that it doesn't have, and not for a bad request, so
    Nova's own driver can tell that a record that it finds is of no node.  (Letters, digits and
    ``-._~``: ``is_valid_logical_name`` in ``ironic/common/utils.py``.)  Any other character is
    there in hexadecimal: ``gold+8`` is ``gold~~2B8``.

    :param host: one of up to 87 characters gives a name that fits in Placement's and Nova's
        columns.
    """
    resource_class, traits = kind
    if not traits and not _LIKE_A_KIND.fullmatch(resource_class):
        return _name(resource_class, None, host)
    # Otherwise a class that looks like another one and its digest has that one's uuid.
    return _name(resource_class, make_digest(*sorted(traits))[:10], host)


def pool_uuid(name: str) -> str:
    """The uuid of a pool's record: the same for the same name, always.

    Made from a fixed form, ``gold+3f2a9c10de@compute1``, and not from the name as it is written.
    """
    return str(uuid.uuid5(_NAMESPACE, _plain(name)))


def class_of(name: str, host: str) -> str | None:
    """The resource class of a host's pool by its name; ``None``: not a name of such a pool.

    If the class is too long for a name, another one with the same name in Placement.
    """
    match = _NAME.fullmatch(name) if "~" in name else None
    if match is None or _unquoted(match["host"]) != host:
        return None
    return _unquoted(match["class"])


def _name(resource_class: str, kind_digest: str | None, host: str) -> str:
    quoted = _quoted(resource_class)
    if len(quoted) > _LONGEST_CLASS:
        # In other alphabets, a flavor can only ask for it by Placement's class.
        kind_digest = make_digest(resource_class, kind_digest or "")[:10]
        quoted = placement_class(resource_class).removeprefix(CUSTOM)
    return "~".join((quoted, *((kind_digest,) if kind_digest else ()), _quoted(host)))


def _plain(name: str) -> str:
    match = _NAME.fullmatch(name)
    if match is None or "@" in (host := _unquoted(match["host"])):
        return name
    mark = f"+{match['digest']}" if match["digest"] else ""
    return f"{_unquoted(match['class'])}{mark}@{host}"


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="").replace("~", "%7E").replace("%", "~~")


def _unquoted(text: str) -> str:
    return urllib.parse.unquote(text.replace("~~", "%"))


@functools.lru_cache(maxsize=4096)
def make_digest(*parts: str) -> str:
    """Return a text that is always the same for the same parts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
