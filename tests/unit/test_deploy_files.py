# SPDX-License-Identifier: Apache-2.0

"""The files in ``etc/deploy``: each can be read, and where two say the same, they agree.

That Nova loads the driver by them is shown in ``tests/nova/test_deployers.py``.
"""

import configparser
import pathlib
import re
import textwrap

import yaml

ROOT = pathlib.Path(__file__).parents[2]
FILES = ROOT / "etc" / "deploy"


def kolla_footer() -> str:
    """What the template override adds to the image."""
    template = (FILES / "kolla/template-override.j2").read_text()
    (footer,) = re.findall(
        r"{% block nova_compute_ironic_footer %}\n(.*?){% endblock %}", template, re.DOTALL
    )
    return footer


def test_kayobe_adds_to_the_image_what_kolla_adds() -> None:
    blocks = yaml.safe_load((FILES / "kayobe/kolla.yml").read_text())["kolla_build_blocks"]
    assert list(blocks) == ["nova_compute_ironic_footer"]
    assert textwrap.dedent(blocks["nova_compute_ironic_footer"]) == kolla_footer()


def test_the_wheel_is_installed_from_where_kolla_puts_it() -> None:
    for tool in ("kolla", "kayobe/kolla"):
        config = configparser.ConfigParser()
        config.read(FILES / tool / "kolla-build.conf")
        (section,) = config.sections()
        image = section.partition("-additions-")[0]
        # Kolla keeps the directory's own name.
        directory = pathlib.PurePath(config[section]["location"]).name
        assert config[section]["type"] == "local"
        assert image == "nova-compute-ironic"
        assert f" /additions/{directory}/ironic_virt-*.whl" in kolla_footer()
