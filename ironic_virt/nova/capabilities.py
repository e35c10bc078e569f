# SPDX-License-Identifier: Apache-2.0

"""What nova-compute may ask of the driver, by Nova's names.

A change is written into all nodes' resource providers when the service starts.
"""

from __future__ import annotations

CAPABILITIES: dict[str, bool] = {
    "has_imagecache": False,
    "supports_accelerators": False,
    "supports_address_space_emulated": False,
    "supports_address_space_passthrough": False,
    "supports_attach_interface": True,
    "supports_evacuate": False,
    "supports_mem_backing_file": False,
    "supports_migrate_to_same_host": False,
    "supports_multiattach": False,
    "supports_pcpus": False,
    "supports_remote_managed_ports": False,
    "supports_stateless_firmware": False,
    "supports_trusted_certs": False,
    "supports_virtio_fs": False,
    # Ironic gets the image from Glance by itself, in these formats.
    "supports_image_type_ami": True,
    "supports_image_type_qcow2": True,
    "supports_image_type_raw": True,
    "supports_image_type_aki": False,
    "supports_image_type_ari": False,
    "supports_image_type_iso": False,
    "supports_image_type_ploop": False,
    "supports_image_type_vdi": False,
    "supports_image_type_vhd": False,
    "supports_image_type_vhdx": False,
    "supports_image_type_vmdk": False,
}
"""As of Nova's in-tree driver.

Each becomes a trait of every node's resource provider, so the scheduler sends no request for
what is ``False`` here.
"""
