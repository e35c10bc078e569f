# SPDX-License-Identifier: Apache-2.0

"""The plugin of DevStack, with DevStack's functions replaced by such as note their calls."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
set -o errexit
for name in define_plugin plugin_requires setup_develop iniset pip_uninstall; do
    eval "$name() { echo $name \\"\\$@\\"; }"
done
is_service_enabled() { [[ " $ENABLED " == *" $1 "* ]]; }
source devstack/settings
NOVA_CONF=nova.conf
phases=("stack pre-install" "stack install" "stack post-config" "stack extra" unstack clean)
for phase in "${phases[@]}"; do
    echo "# $phase"
    source devstack/plugin.sh $phase
done
"""


def told(enabled: str, **settings: str) -> list[str]:
    """What is called in the phases of DevStack."""
    done = subprocess.run(
        ["bash", "-c", SCRIPT],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "ENABLED": enabled, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return done.stdout.splitlines()


def test_nova_compute_gets_this_driver_and_keeps_other_options() -> None:
    assert told("n-api n-cpu", IRONIC_VIRT_EXTRAS="standby,metrics") == [
        "define_plugin ironic_virt",
        "plugin_requires ironic_virt ironic",
        "# stack pre-install",
        "# stack install",
        f"setup_develop {ROOT} standby,metrics",
        "# stack post-config",
        "iniset nova.conf DEFAULT compute_driver ironic_virt.IronicDriver",
        "iniset nova.conf ironic node_selection scheduler",
        "# stack extra",
        "# unstack",
        "# clean",
        "pip_uninstall ironic-virt",
    ]


def test_a_host_without_nova_compute_is_left_alone() -> None:
    assert [line for line in told("n-api") if line[0] != "#"][2:] == []
