# SPDX-License-Identifier: Apache-2.0

"""What deployment tools make of the files in ``etc/deploy``: a real Nova loads the driver by it.

Each tool writes nova.conf in its own way, which is done here as the tool does it.  What it would
write without our file is short here; its ``[ironic]`` has all that the tool writes there.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nova.conf  # noqa: F401 - it sets Nova's defaults of oslo.service's options
import pytest
import yaml
from oslo_config import cfg
from oslo_service import service

from tests.functional import typed

ROOT = Path(__file__).parents[2]
FILES = ROOT / "etc" / "deploy"
OURS = "ironic_virt.nova.driver.IronicDriver"
IN_TREE = "nova.virt.ironic.driver.IronicDriver"
Sections = dict[str, dict[str, list[str]]]

KEYSTONE = """
auth_type = password
auth_url = http://127.0.0.1:1/v3
username = ironic
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
"""

KOLLA = f"""
[DEFAULT]
host = {{host}}
compute_driver = ironic.IronicDriver
reserved_host_memory_mb = 0
[ironic]
{KEYSTONE}
cafile =
endpoint_override = http://127.0.0.1:1/v1
"""

OPENSTACK_ANSIBLE = f"""
[DEFAULT]
compute_driver = {{nova_compute_driver}}
reserved_host_memory_mb = 0
[ironic]
{KEYSTONE}
insecure = False
"""

HELM = {
    "nova": {
        "DEFAULT": {"compute_driver": "libvirt.LibvirtDriver", "log_config_append": None},
        "ironic": {
            "api_endpoint": "http://127.0.0.1:1/",
            "auth_version": "v3",
            "region_name": "RegionOne",
            **dict(line.split(" = ") for line in KEYSTONE.split("\n") if line),
        },
    },
    "nova_ironic": {
        "DEFAULT": {
            "compute_driver": "ironic.IronicDriver",
            "ram_allocation_ratio": 1.0,
            "reserved_host_memory_mb": 0,
            "scheduler_host_manager": "ironic_host_manager",
        }
    },
}


def read(path: Path) -> Sections:
    """The values of an INI file, by section and option."""
    sections: Sections = {}
    cfg.ConfigParser(str(path), sections).parse()
    return sections


def written(path: Path, sections: Mapping[str, Mapping[str, Any]]) -> Path:
    """The file, with these values in it; of a list each one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for section, options in sections.items():
            file.write(f"[{section}]\n")
            for name, values in options.items():
                for value in values if isinstance(values, list) else [values]:
                    file.write(f"{name} = {value}\n")
    return path


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merged at any depth; else what is above replaces what is below."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def kolla(directory: Path, override: Path, **more: str) -> list[str]:
    """kolla-ansible: our file's options replace those of its template, which is of one service.

    :param more: further options of ``[ironic]``.
    """
    template = directory / "template"
    directory.mkdir()
    template.write_text(
        KOLLA.format(host=more.get("peer_list", "controller1-ironic"))
        + "".join(f"{name} = {value}\n" for name, value in more.items())
    )
    merged_file = written(directory / "nova.conf", merged(read(template), read(override)))
    return ["--config-file", str(merged_file)]


def openstack_ansible(directory: Path) -> list[str]:
    """openstack-ansible: the template has a variable; the host's value wins over the role's."""
    own = yaml.safe_load((FILES / "openstack-ansible/group_vars/ironic_compute.yml").read_text())
    variables = {"nova_compute_driver": "ironic.IronicDriver"} | own
    directory.mkdir()
    path = directory / "nova.conf"
    path.write_text(OPENSTACK_ANSIBLE.format(**variables))
    return ["--config-file", str(path)]


def openstack_helm(directory: Path) -> list[str]:
    """openstack-helm: values over the chart's make two files; a null is left out."""
    own = yaml.safe_load((FILES / "openstack-helm/nova-values.yaml").read_text())
    arguments = []
    for name, sections in merged(HELM, own["conf"]).items():
        values = {
            section: {key: value for key, value in options.items() if value is not None}
            for section, options in sections.items()
        }
        arguments += ["--config-file", str(written(directory / f"{name}.conf", values))]
    return arguments


def by_hand(directory: Path) -> list[str]:
    """The file on the page for those who begin."""
    page = ROOT / "doc" / "source" / "start" / "nova.rst"
    (text,) = typed.blocks(typed.section(page, "A Nova without Ironic so far"), "ini")
    path = directory / "nova.conf"
    path.write_text(text)
    return ["--config-file", str(path)]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By tool, what a Nova in a fresh process loads."""
    directory = tmp_path_factory.mktemp("deployers")
    kolla_file = FILES / "kolla-ansible/config/nova/nova-compute-ironic.conf"
    nothing = written(directory / "nothing.conf", {})
    group = {"conductor_group": "rack1", "peer_list": "rack1--ironic"}
    tools = {
        "nothing of ours": kolla(directory / "nothing", nothing),
        "kolla-ansible": kolla(directory / "kolla", kolla_file),
        "kolla-ansible with a shard": kolla(directory / "shard", kolla_file, shard="rack1"),
        "kolla-ansible with a group": kolla(directory / "group", kolla_file, **group),
        "kayobe": kolla(
            directory / "kayobe", FILES / "kayobe/kolla/config/nova/nova-compute-ironic.conf"
        ),
        "openstack-ansible": openstack_ansible(directory / "osa"),
        "openstack-helm": openstack_helm(directory / "helm"),
        "by hand": by_hand(directory),
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.nova.loading", json.dumps(tools)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "tool",
    [
        "kolla-ansible",
        "kolla-ansible with a shard",
        "kolla-ansible with a group",
        "kayobe",
        "openstack-ansible",
        "openstack-helm",
        "by hand",
    ],
)
def test_nova_loads_the_driver_by_what_a_tool_makes_of_our_file(loaded, tool) -> None:
    assert loaded[tool]["driver"] == OURS, loaded[tool]


def test_without_our_file_nova_loads_its_own(loaded: dict[str, dict[str, Any]]) -> None:
    assert loaded["nothing of ours"]["driver"] == IN_TREE, loaded["nothing of ours"]


def test_the_driver_knows_all_options_of_kolla_and_osa(loaded: dict[str, dict[str, Any]]) -> None:
    tools = [
        "kolla-ansible",
        "kolla-ansible with a shard",
        "kayobe",
        "openstack-ansible",
        "by hand",
    ]
    assert [line for tool in tools for line in loaded[tool]["complaints"]] == []


def test_the_driver_names_what_the_helm_chart_writes_in_vain(loaded) -> None:
    names = {line.split(" in ", 1)[0] for line in loaded["openstack-helm"]["complaints"]}
    assert names == {
        f"[option-questionable] [ironic] {name}" for name in ("api_endpoint", "auth_version")
    }


def test_systemd_waits_until_nova_has_ended_in_order() -> None:
    unit = (FILES / "systemd/nova-compute.service.d/ironic-virt.conf").read_text()
    (patience,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    options = {option.name: option for _, group in service.list_opts() for option in group}
    assert int(patience) > options["graceful_shutdown_timeout"].default
