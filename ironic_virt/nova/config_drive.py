# SPDX-License-Identifier: Apache-2.0

"""Nova's config drive with the addresses that a node's ports really have.

Nova builds the image itself, so that it holds what every other driver's holds.  What
Nova can't know is which port of the node has which VIF: Ironic does.
"""

from __future__ import annotations

import base64
import gzip
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nova.api.metadata import base as instance_metadata
from nova.virt import configdrive, netutils

from ironic_virt import virt
from ironic_virt.driver import Link
from ironic_virt.driver.network_data import with_links


def is_wanted(instance: Any) -> bool:
    """Whether server, image or ``[DEFAULT] force_config_drive`` ask for one."""
    return bool(configdrive.required_by(instance))


def build(
    instance: Any,
    network_info: Any,
    links: Mapping[str, Link],
    injected_files: Sequence[tuple[str, bytes]],
    admin_password: str | None,
) -> virt.ConfigDrive:
    """Build it.

    :param network_info: Nova's.
    :param links: the physical link of each VIF.
    """
    metadata = instance_metadata.InstanceMetadata(
        instance,
        content=injected_files,
        extra_md={"admin_pass": admin_password} if admin_password else {},
        network_info=network_info,
        network_metadata=network_data(netutils.get_network_metadata(network_info), links),
    )
    with tempfile.TemporaryDirectory(prefix="ironic-virt-") as directory:
        image = Path(directory, "config-drive")
        with configdrive.ConfigDriveBuilder(instance_md=metadata) as builder:
            builder.make_drive(str(image))
        packed = gzip.compress(image.read_bytes(), mtime=0)
    return virt.ConfigDrive(iso_gzip_base64=base64.b64encode(packed).decode("ascii"))


def network_data(nova: Any, links: Mapping[str, Link]) -> Any:
    """Nova's ``network_data`` with physical addresses, and with bonds spelled out.

    :param nova: as Nova makes it from its records; ``None``: there is no network.
    """
    return None if nova is None else with_links(nova, links)
