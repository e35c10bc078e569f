#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# DevStack sources this in each phase: Nova's compute service gets the driver of this checkout in
# place of the one that comes with Nova.  Everything in [ironic] stays as DevStack has set it.
#
#   [[local|localrc]]
#   enable_plugin ironic https://opendev.org/openstack/ironic
#   enable_plugin ironic_virt URL
#   VIRT_DRIVER=ironic

IRONIC_VIRT_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

function install_ironic_virt {
    setup_develop "$IRONIC_VIRT_DIR" ${IRONIC_VIRT_EXTRAS:+"$IRONIC_VIRT_EXTRAS"}
}

# nova-cpu.conf, which nova-compute reads, is made from this file when it is started.
function configure_ironic_virt {
    iniset "$NOVA_CONF" DEFAULT compute_driver ironic_virt.IronicDriver
    iniset "$NOVA_CONF" ironic node_selection "$IRONIC_VIRT_NODE_SELECTION"
}

function uninstall_ironic_virt {
    pip_uninstall ironic-virt
}

if is_service_enabled n-cpu; then
    case "$1 ${2:-}" in
        "stack install") install_ironic_virt ;;
        "stack post-config") configure_ironic_virt ;;
        "clean ") uninstall_ironic_virt ;;
    esac
fi
