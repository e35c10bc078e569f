# SPDX-License-Identifier: Apache-2.0

"""Our options together with Nova's."""

from pathlib import Path

import pytest
from nova.conf import ironic as novas
from nova.conf import utils
from oslo_config import cfg

from ironic_virt import exceptions
from ironic_virt.nova import options


@pytest.fixture
def load(tmp_path: Path):
    """Nova's [ironic] group with ours added, read from a file."""

    def read(**values: str) -> cfg.ConfigOpts:
        path = tmp_path / "nova.conf"
        path.write_text("\n".join(["[ironic]", *(f"{k} = {v}" for k, v in values.items())]) + "\n")
        conf = cfg.ConfigOpts()
        # Not Nova's own function: its group object would carry over from test to test.
        conf.register_opts(novas.ironic_options, group="ironic")
        utils.register_ksa_opts(conf, "ironic", novas.DEFAULT_SERVICE_TYPE)
        options.register_opts(conf)
        conf(["--config-file", str(path)], project="nova", default_config_files=[])
        return conf

    return read


def test_novas_own_options_keep_their_definition(load) -> None:
    conf = load()
    for option in novas.ironic_options:
        assert conf._get_opt_info(option.dest, "ironic")["opt"] is option


def test_an_older_nova_gets_the_options_that_it_lacks(load, monkeypatch) -> None:
    name = "vnc_console_state_timeout"
    older = [option for option in novas.ironic_options if option.dest != name]
    monkeypatch.setattr(novas, "ironic_options", older)
    conf = load(vnc_console_state_timeout="7")
    assert conf.ironic.vnc_console_state_timeout == 7


def test_ours_are_added_and_can_be_registered_again(load) -> None:
    conf = load(deploy_timeout="77")
    options.register_opts(conf)
    options.check_options(conf)
    assert conf.ironic.deploy_timeout == 77


@pytest.mark.parametrize(
    "values", [{}, {"shard": "a"}, {"shard_key": "a"}, {"shard": "a", "shard_key": "a"}]
)
def test_shard_and_shard_key_are_the_same(load, values: dict[str, str], caplog) -> None:
    conf = load(**values)
    options.check_options(conf)
    assert conf.ironic.shard_key == ("a" if values else None)
    # Nova itself has the option shard, so neither name is the former one.
    assert "deprecated" not in caplog.text.lower()


def test_a_value_that_cannot_be_parsed_is_refused_by_its_name(load) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match=r"\[ironic\] deploy_timeout"):
        options.check_options(load(deploy_timeout="soon"))


@pytest.mark.parametrize("name", ["shard_keyy", "shards", "Shard_Key", "conductorgroup"])
def test_a_misspelt_option_that_decides_ownership_is_refused(load, name: str) -> None:
    with pytest.raises(exceptions.InvalidConfiguration, match=rf"\[ironic\] {name}") as caught:
        options.check_options(load(**{name: "a"}))
    assert "did you mean" in str(caught.value)


def test_another_misspelt_option_is_warned_of(load, caplog: pytest.LogCaptureFixture) -> None:
    values = {"auth_type": "password", "username": "nova", "user-domain-name": "default"}
    options.check_options(load(**values, shard="a", deploy_timeot="7", api_max_retries="3"))
    (warning,) = caplog.messages
    assert "[ironic] deploy_timeot in " in warning
    assert "did you mean deploy_timeout?" in warning
