# SPDX-License-Identifier: Apache-2.0
# Patching comes before all other imports.

"""A program: what nova-compute does with the driver, with Nova patched for eventlet.

Ironic's URL and a port for metrics are its arguments.  It prints how many servers it has
deployed, rebooted and deleted at once, and how many builds the metrics show.
"""

import os

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "0"

from nova import monkey_patch

# Up to 2025.1 importing it is enough.
if hasattr(monkey_patch, "patch"):
    monkey_patch.patch()

import json
import re
import sys
import uuid

import eventlet
import nova.conf
import requests
from keystoneauth1 import loading
from nova import objects

from ironic_virt.nova import options
from ironic_virt.nova.driver import IronicDriver

CONF = nova.conf.CONF


def made(url: str, port: int) -> IronicDriver:
    """A driver whose records know of nobody else's nodes and servers."""
    CONF.register_opts(loading.get_auth_plugin_conf_options("none"), group="ironic")
    CONF([], project="nova", default_config_files=[])
    options.register_opts(CONF)
    values = {"auth_type": "none", "endpoint_override": url, "api_retry_interval": 1}
    values["metrics_port"] = port
    for name, value in values.items():
        CONF.set_override(name, value, group="ironic")
    driver = IronicDriver(None)
    records = driver._records
    records.node_owners = lambda uuids: {}
    records.owned_instance_uuids = frozenset
    records.instance_places = dict
    records.abort_reason = lambda instance: None
    records.deploy_metadata = lambda instance, network_info: {}
    records.config_drive = lambda *args, **kwargs: None
    return driver


def live(driver: IronicDriver, node: str) -> None:
    """The life of a server on a node."""
    flavor = objects.Flavor(
        name="gold", vcpus=8, memory_mb=1, root_gb=10, ephemeral_gb=0, swap=0, extra_specs={}
    )
    instance = objects.Instance(
        uuid=str(uuid.uuid4()),
        node=node,
        host="compute1",
        flavor=flavor,
        display_name="server",
        project_id="p",
        user_id="u",
        task_state=None,
    )
    image = objects.ImageMeta(id=str(uuid.uuid4()), properties=objects.ImageMetaProps())
    driver.prepare_for_spawn(instance)
    driver.spawn(None, instance, image, [], None, {})
    driver.reboot(None, instance, None, "HARD")
    driver.destroy(None, instance, None)


def main() -> None:
    """Have servers on all nodes at once."""
    objects.register_all()
    driver = made(sys.argv[1], int(sys.argv[2]))
    driver.init_host("compute1")
    pool = eventlet.GreenPool()
    done = sum(1 for _ in pool.imap(lambda node: live(driver, node), driver.get_available_nodes()))
    shown = requests.get(f"http://127.0.0.1:{sys.argv[2]}/metrics", timeout=30).text
    (builds,) = re.findall(r'build_seconds_count{result="done"} (.*)', shown)
    driver.cleanup_host("compute1")
    sys.stdout.write(json.dumps({"servers": done, "builds": float(builds)}))


main()
