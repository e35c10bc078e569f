# SPDX-License-Identifier: Apache-2.0

"""The sample configuration file says what the options are today."""

import io
import pathlib
import re

from oslo_config import cfg, generator

from ironic_virt.conf import compute, ironic, ironic_options, scheduler, service

ROOT = pathlib.Path(__file__).parents[2]
SAMPLE = ROOT / "etc" / "ironic_virt" / "ironic-virt.conf.sample"
GENERATOR_CONFIG = ROOT / "etc" / "oslo-config-generator" / "ironic-virt.conf"
ADVICE = f"{SAMPLE.name} is out of date: 'make sample' writes it anew"

Entries = dict[tuple[str, str], str]


def entries(text: str) -> Entries:
    """Take a sample file apart: (section, option) to the option's paragraph."""
    found: Entries = {}
    section = ""
    for paragraph in re.split(r"\n{2,}", text):
        if header := re.match(r"\[(\w+)\]", paragraph.strip()):
            section = header[1]
        elif option := re.search(r"^#(\w+) = ?", paragraph, re.MULTILINE):
            found[section, option[1]] = paragraph.strip()
    return found


def generated() -> Entries:
    conf = cfg.ConfigOpts()
    generator.register_cli_opts(conf)
    conf(["--config-file", str(GENERATOR_CONFIG)], default_config_files=[])
    output = io.StringIO()
    generator.generate(conf, output_file=output)
    return entries(output.getvalue())


def ours() -> set[tuple[str, str]]:
    return {
        *(("DEFAULT", opt.dest) for opt in compute.OPTIONS),
        *(("DEFAULT", opt.dest) for opt in service.DEFAULT_OPTIONS),
        *((service.GROUP, opt.dest) for opt in service.OPTIONS),
        *((ironic.GROUP, opt.dest) for opt in ironic_options.OPTIONS),
        *((scheduler.GROUP, opt.dest) for opt in scheduler.OPTIONS),
    }


def test_the_sample_describes_each_of_our_options_as_it_is() -> None:
    sample, fresh = entries(SAMPLE.read_text()), generated()
    for key in sorted(ours()):
        assert sample.get(key) == fresh[key], ADVICE


# Options in the sample that the oldest keystoneauth1 which is tested does not have.
NEW_IN_KEYSTONEAUTH = {("ironic", "tls_ciphers"), ("ironic", "tls_min_version")}


def test_the_sample_has_no_option_that_is_gone() -> None:
    # The other way round would fail whenever keystoneauth1 gains an option.
    gone = entries(SAMPLE.read_text()).keys() - generated().keys()
    assert gone - NEW_IN_KEYSTONEAUTH == set(), ADVICE
