# SPDX-License-Identifier: Apache-2.0

"""The group ``[ironic]``: our options and those of keystoneauth1, and checks of them.

keystoneauth1 brings the options of authentication, session and adapter.
"""

from __future__ import annotations

import contextlib
import re

from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1 import http_basic, loading
from keystoneauth1 import plugin as ksa_plugin
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.conf import UNSET, read_each, unknown
from ironic_virt.conf.ironic_options import OPTIONS

GROUP = "ironic"
SERVICE_TYPE = "baremetal"

# Which API version to speak is negotiated, never configured.
_VERSION_OPTIONS = frozenset({"version", "min_version", "max_version", "default_microversion"})

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""The answers after which any request may be repeated."""


SHORTEST_RETRY_INTERVAL = 0.1
"""At least so many seconds pass between two tries; no option makes a busy loop."""


def retry_interval(conf: cfg.ConfigOpts) -> float:
    """``api_retry_interval`` in seconds; 0 counts as :data:`SHORTEST_RETRY_INTERVAL`."""
    return max(float(conf[GROUP].api_retry_interval), SHORTEST_RETRY_INTERVAL)


def adapter_options() -> list[cfg.Opt]:
    """keystoneauth1's adapter options, with the bare metal service's defaults."""
    opts = [
        opt
        for opt in loading.get_adapter_conf_options(include_deprecated=False)
        if opt.dest not in _VERSION_OPTIONS
    ]
    cfg.set_defaults(opts, valid_interfaces=["internal", "public"], service_type=SERVICE_TYPE)
    return opts


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register ``[ironic]``: ours, and keystoneauth1's.

    The options of the chosen ``auth_type`` are registered when it is read
    (:func:`check_auth`, or the client), since only then is it known.
    """
    conf.register_group(cfg.OptGroup(GROUP, title="The bare metal service (Ironic)"))
    conf.register_opts(OPTIONS, group=GROUP)
    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    conf.register_opts(adapter_options(), group=GROUP)
    # Readers of adapter options expect these to exist; no file can set them.
    conf.register_opts(
        [cfg.StrOpt(name, sample_default="<negotiated>") for name in _VERSION_OPTIONS],
        group=GROUP,
    )


def all_options() -> list[cfg.Opt]:
    """Every option of the group that can be read before authentication is known."""
    return [
        *OPTIONS,
        *loading.get_session_conf_options(),
        *loading.get_auth_common_conf_options(),
        *adapter_options(),
    ]


def known_names(conf: cfg.ConfigOpts) -> set[str]:
    """Every name that may be written in the group; all options are registered.

    Those of authentication are the ones of ``auth_type``.
    """
    return {*conf[GROUP], *names(conf[GROUP].auth_type)}


def names(auth_type: str | None) -> set[str]:
    """The names of our options and of keystoneauth1's, with those of a plugin."""
    options = [*all_options(), *loading.get_adapter_conf_options()]
    if auth_type is not None:
        with contextlib.suppress(ksa_exceptions.NoMatchingPlugin):
            options += loading.get_auth_plugin_conf_options(auth_type)
    return unknown.names(options)


def check_adapter(conf: cfg.ConfigOpts) -> None:
    """See that no adapter option asks for what is not done.

    :raises InvalidConfiguration: one does.
    """
    group = conf[GROUP]
    for name in sorted(_VERSION_OPTIONS):
        if name in group and group[name] is not None:
            raise _wrong(name, "API versions are negotiated with Ironic: remove the option")
    read_each(GROUP, group, adapter_options())
    endpoint = group.endpoint_override
    # A password may be in it.
    if endpoint is not None and not re.fullmatch("https?://([^][/?#]*@)?[^@]*", endpoint):
        raise _wrong(
            "endpoint_override",
            "is not an http:// or https:// URL. Quote / ? # [ ] before its @, as %2F for /",
        )
    try:
        loading.adapter.process_conf_options(group, {})
    except TypeError as exc:
        raise _wrong("valid_interfaces", str(exc)) from exc
    others = set(group.retriable_status_codes or ()) - RETRIED_STATUSES
    if others:
        raise _wrong(
            "retriable_status_codes",
            f"after {', '.join(map(str, sorted(others)))} a request is not sent again, since it "
            "may have been carried out; use only "
            f"{', '.join(map(str, sorted(RETRIED_STATUSES)))}",
        )
    for name in ("connect_retry_delay", "status_code_retry_delay"):
        if (group[name] or 0) < 0:
            raise _wrong(name, "is less than 0")


def check_auth(conf: cfg.ConfigOpts) -> None:
    """See that the authentication plugin exists and that its options parse.

    :raises InvalidConfiguration: an unknown ``auth_type``, a missing or
        unreadable option of it.
    """
    # Before this call it is not known whether the plugin's options have a separate section.
    loading.register_auth_conf_options(conf, GROUP)
    if conf[GROUP].auth_type is None and conf[GROUP].auth_section is None:
        raise _wrong(
            "auth_type",
            "is not set. Use 'none' (with endpoint_override) for an Ironic without "
            "authentication, 'http_basic', or 'password' for Keystone",
        )
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
    except ksa_exceptions.MissingRequiredOptions as exc:
        raise _wrong(", ".join(opt.dest for opt in exc.options), str(exc)) from exc
    except (ksa_exceptions.NoMatchingPlugin, ksa_exceptions.OptionError) as exc:
        raise _wrong("auth_type", str(exc)) from exc
    except ValueError as exc:
        raise exceptions.InvalidConfiguration(f"[{GROUP}]", str(exc)) from exc
    except cfg.NoSuchOptError:
        raise exceptions.InvalidConfiguration(f"[{GROUP}]", UNSET) from None
    if auth is None:
        raise _wrong(
            "auth_section",
            f"names the section [{conf[GROUP].auth_section}], which sets no auth_type",
        )
    if isinstance(auth, http_basic.HTTPBasicAuth):
        for name in ("username", "password"):
            if not getattr(auth, name):
                raise _wrong(name, "is needed for auth_type = http_basic")
    # Without Keystone there is no catalog to look the URL up in.
    standalone = isinstance(auth, ksa_plugin.FixedEndpointPlugin) and not auth.endpoint
    if standalone and not conf[GROUP].endpoint_override:
        raise _wrong(
            "endpoint_override",
            "is needed without Keystone: the URL of Ironic, such as http://localhost:6385",
        )


def _wrong(option: str, why: str) -> exceptions.InvalidConfiguration:
    return exceptions.InvalidConfiguration(f"[{GROUP}] {option}", why)
