# SPDX-License-Identifier: Apache-2.0

"""The options: Nova's names, defaults and meaning, and a wrong value is an error at start."""

import pathlib
import socket
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_virt import conf, exceptions
from ironic_virt.conf import opts, service

NO_AUTH = "auth_type = none\nendpoint_override = http://ironic.invalid:6385"

# Nova 34.0.0, nova/conf/ironic.py.
NOVA_DEFAULTS = {
    "api_max_retries": 60,
    "api_retry_interval": 2,
    "serial_console_state_timeout": 10,
    "vnc_console_state_timeout": 60,
    "conductor_group": None,
    "peer_list": [],
    "service_type": "baremetal",
    "valid_interfaces": ["internal", "public"],
    "endpoint_override": None,
    "region_name": None,
    "insecure": False,
    "timeout": None,
}

Load = Callable[..., cfg.ConfigOpts]


@pytest.fixture
def load(tmp_path: pathlib.Path) -> Load:
    """Load an ini file with these lines in ``[ironic]`` and in ``[DEFAULT]``."""

    def from_lines(ironic: str = "", default: str = "", auth: str = NO_AUTH) -> cfg.ConfigOpts:
        path = tmp_path / "ironic-virt.conf"
        path.write_text(f"[DEFAULT]\n{default}\n[ironic]\n{auth}\n{ironic}\n")
        return conf.load([str(path)])

    return from_lines


# -- names, defaults and meaning --------------------------------------------------


def test_options_have_novas_defaults(load: Load) -> None:
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    options([])
    assert {name: options.ironic[name] for name in NOVA_DEFAULTS} == NOVA_DEFAULTS
    loaded = load()
    assert (loaded.compute_driver, loaded.host) == ("ironic", socket.gethostname())


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        ("partition_key = blue", "conductor_group", "blue"),
        ("shard = blue", "shard_key", "blue"),
        # The default group is something else than any group.
        ("", "conductor_group", None),
        ("conductor_group =", "conductor_group", ""),
        ('conductor_group = ""', "conductor_group", ""),
        ("conductor_group = Rack-1", "conductor_group", "Rack-1"),
    ],
)
def test_an_option_is_read_also_by_its_former_name(load, line, option, value) -> None:
    assert load(line).ironic[option] == value


@pytest.mark.parametrize(
    ("name", "may_change"),
    [("conductor_group", True), ("peer_list", True), ("shard_key", False), ("region_name", False)],
)
def test_what_may_change_while_the_service_runs(load, tmp_path, name, may_change) -> None:
    loaded = load(f"{name} = before")
    path = tmp_path / "ironic-virt.conf"
    path.write_text(path.read_text().replace("before", "after"))
    loaded.mutate_config_files()
    assert ("after" in loaded.ironic[name]) is may_change


def test_the_peer_list_is_to_go_and_the_rest_is_to_stay() -> None:
    deprecated = {
        opt.dest for _, group in opts.list_opts() for opt in group if opt.deprecated_for_removal
    }
    assert "peer_list" in deprecated
    assert not deprecated & {"conductor_group", "shard_key", "api_max_retries"}


# -- wrong values -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("endpoint_override = ironic.example.org:6385", "[ironic] endpoint_override"),
        ("endpoint_override = htp://a:hunter2@x.invalid", "[ironic] endpoint_override"),
        ("endpoint_override = http://a:7/hunter2@x.invalid", "[ironic] endpoint_override"),
        ("endpoint_override = http://a:hunter2$b@x.invalid", "[ironic] endpoint_override"),
        ("cafile = $hunter2", "[ironic] cafile"),
        ("api_max_retries = often", "[ironic] api_max_retries"),
        ("api_max_retries = -1", "[ironic] api_max_retries"),
        ("api_retry_interval = 0.5", "[ironic] api_retry_interval"),
        ("serial_console_state_timeout = -1", "[ironic] serial_console_state_timeout"),
        ("vnc_console_state_timeout = x", "[ironic] vnc_console_state_timeout"),
        ("deploy_timeout = -1", "[ironic] deploy_timeout"),
        ("unprovision_timeout = soon", "[ironic] unprovision_timeout"),
        ("power_timeout = -1", "[ironic] power_timeout"),
        ("conductor_group = rack 1", "[ironic] conductor_group"),
        (f"conductor_group = {'x' * 256}", "[ironic] conductor_group"),
        ("partition_key = rack/1", "[ironic] conductor_group"),
        ("shard_key =", "[ironic] shard_key"),
        ("shard_key = a,b", "[ironic] shard_key"),
        ("shard = a b", "[ironic] shard_key"),
        ("timeout = never", "[ironic] timeout"),
        ("insecure = perhaps", "[ironic] insecure"),
        ("connect_retries = x", "[ironic] connect_retries"),
        *(
            (f"[scheduler]\n{name} = {value}", f"[scheduler] {name}")
            for name, value in (
                ("use_baremetal_filters", "perhaps"),
                ("weight_multipliers", "SnugFitWeigher:much"),
                ("weight_multipliers", "SnugFitWeigher"),
                ("host_subset_size", "0"),
                ("max_instances_per_host", "0"),
                ("max_attempts", "0"),
            )
        ),
        ("[DEFAULT]\nhost = not a host", "[DEFAULT] host"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_its_option(load, line, option) -> None:
    with pytest.raises(exceptions.InvalidConfiguration) as caught:
        load(line)
    assert caught.value.option == option
    assert option in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "LocationInfo" not in str(caught.value)


def test_a_file_that_may_not_be_read_is_an_error_that_names_it(tmp_path, monkeypatch) -> None:
    path = tmp_path / "secret.conf"
    path.write_text("")

    # An unreadable file would be readable to root, as whom tests may run.
    def refuse(*_: Any) -> None:
        raise cfg.ConfigFilesPermissionDeniedError([str(path)])

    monkeypatch.setattr(cfg.ConfigParser, "_parse_file", refuse)
    with pytest.raises(exceptions.InvalidConfiguration, match=r"secret\.conf"):
        conf.load([str(path)])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, r"it\.conf"),
        (b"[ironic]\npassword = a\nhunt'er2\n", r"not an ini file: .*it\.conf, line 3$"),
        (b"\xff\xfe\n", "no text in UTF-8"),
    ],
    ids=["missing", "no ini file", "no text"],
)
def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path, content, says) -> None:
    path = tmp_path / "it.conf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(exceptions.InvalidConfiguration, match=says) as error:
        conf.load([str(path)])
    assert "er2" not in str(error.value), "it may be a password"


# -- authentication ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "option"),
    [
        ("", "[ironic] auth_type"),
        ("auth_type = kerberos5000", "[ironic] auth_type"),
        ("auth_type = none", "[ironic] endpoint_override"),
        ("auth_type = http_basic\nusername = u\npassword = p", "[ironic] endpoint_override"),
        ("auth_type = http_basic\nusername = u", "[ironic] password"),
        ("auth_type = http_basic\npassword = p", "[ironic] username"),
        ("auth_type = password\nusername = u\npassword = hunter2", "[ironic] auth_url"),
        ("auth_section = elsewhere", "[ironic] auth_section"),
        ("auth_type = http_basic\nusername = u\npassword = p$hunter2", "[ironic]"),
    ],
)
def test_authentication_that_can_not_work_is_an_error_at_start(load, auth, option) -> None:
    with pytest.raises(exceptions.InvalidConfiguration) as caught:
        load(auth=auth)
    assert caught.value.option == option
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "auth",
    [
        NO_AUTH,
        "auth_type = none\nendpoint = http://ironic.invalid:6385",
        "auth_type = http_basic\nusername = u\npassword = p\nendpoint_override = http://x.invalid",
        "auth_type = password\nauth_url = http://keystone.invalid/v3\nusername = u\npassword = p",
        "auth_plugin = none\nendpoint_override = http://ironic.invalid:6385",
        "auth_section = keystone\n[keystone]\nauth_type = password\nusername = u\npassword = p\n"
        "auth_url = http://keystone.invalid/v3",
    ],
)
def test_authentication_that_may_work_is_none(load: Load, auth: str) -> None:
    load(auth=auth)


# -- the generated sample -----------------------------------------------------------


def test_every_option_is_in_the_sample_or_not_for_files() -> None:
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    listed = {opt.dest for group, some in opts.list_opts() if group == "ironic" for opt in some}
    negotiated = {"version", "min_version", "max_version", "default_microversion"}
    assert set(options.ironic) - negotiated <= listed


def test_a_service_must_report_more_often_than_it_counts_as_down(load: Load) -> None:
    with pytest.raises(
        exceptions.InvalidConfiguration, match="report_interval: 60 s is not below"
    ):
        load(default="report_interval = 60")
    assert load(default="report_interval = 59").report_interval == 59


def test_state_is_kept_in_the_user_s_own_place_unless_it_is_root(monkeypatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert service.default_state_path() == "/var/lib/ironic-virt"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/ada/state")
    assert service.default_state_path() == "/home/ada/state/ironic-virt"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert service.default_state_path() == "/home/ada/.local/state/ironic-virt"
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/one:/var/lib/two")
    assert service.default_state_path() == "/var/lib/one"


# -- options that nobody reads ------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["shard_keyy", "shards", "Shard_Key", "conductorgroup", "peerlist"]
)
def test_a_misspelt_option_that_decides_ownership_is_refused(load: Load, name: str) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match="did you mean") as caught:
        load(f"{name} = a")
    assert caught.value.option == f"[ironic] {name}"


def test_two_names_of_the_shard_must_say_the_same(load: Load) -> None:
    assert load("shard = a\nshard_key = a").ironic.shard_key == "a"
    with pytest.raises(exceptions.InvalidConfiguration, match="'b', but shard is 'a'"):
        load("shard = a\nshard_key = b")


def test_other_unread_options_are_named_with_their_file(tmp_path: pathlib.Path) -> None:
    first, second = tmp_path / "a.conf", tmp_path / "b.conf"
    first.write_text(f"[ironic]\n{NO_AUTH}\npartition_key = g\nconnect-retries = 1\n")
    second.write_text("[ironic]\ndeploy_timeot = 7\n[compute]\nirrelevant = 1\n[other]\nx = 1\n")
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    conf.read(options, [str(first), str(second)])
    assert sorted(conf.check(options)) == [
        f"[compute] irrelevant in {second}: unknown option, ignored",
        f"[ironic] deploy_timeot in {second}: unknown option, ignored; "
        "did you mean deploy_timeout?",
    ]


def test_what_is_missing_is_said_with_what_may_be_meant_by_it(load: Load) -> None:
    with pytest.raises(exceptions.InvalidConfiguration) as caught:
        load("endpoint_overide = http://127.0.0.1:6385", auth="auth_type = none")
    assert caught.value.option == "[ironic] endpoint_override"
    assert "is needed without Keystone" in caught.value.reason
    assert "ignored; did you mean endpoint_override?" in caught.value.reason


def test_options_of_the_authentication_that_is_used_are_known(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.conf"
    named = ("username", "user-name", "password", "project_name", "user_domain_name")
    lines = [f"{name} = x" for name in (*named, "project_domain_name", "interface")]
    auth = ["[ironic]", "auth_type = password", "auth_url = http://keystone.invalid"]
    path.write_text("\n".join([*auth, *lines]))
    options = cfg.ConfigOpts()
    conf.register_opts(options)
    conf.read(options, [str(path)])
    assert conf.check(options) == []
