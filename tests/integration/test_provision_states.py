# SPDX-License-Identifier: Apache-2.0

"""The table of provision states on the real Ironic, brought into each of them by force."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ironic_virt import virt
from ironic_virt.baremetal import states
from tests import provision_states
from tests.integration.services import Operator, Service, new_nodes, write_conf
from tests.provision_states import IMAGE, METHODS, WAITS, Request
from tools import real_ironic

AT_ONCE = 8
SHOWN = (
    "get_inventory",
    "prepare_for_spawn",
    "get_info",
    "power_off",
    "rescue",
    "unrescue",
    "rebuild",
    "trigger_crash_dump",
    "destroy",
)
"""The columns that are shown: all that guards, asks and waits in its own ways."""

_RESOURCE_CLASS = "stateful"


class _Sent(virt.Metrics):
    """Keeps each request in a list."""

    def __init__(self, sent: list[Request]) -> None:
        self._sent = sent

    def request(self, method: str, path: str, code: str, seconds: float) -> None:
        self._sent.append((method, int(code) if code.isdecimal() else None))


class _Service(Service):
    """A compute service that knows what it has sent."""

    def __init__(self, config: Path) -> None:
        self.sent: list[Request] = []
        self.metrics = _Sent(self.sent)
        super().__init__(config)


@pytest.fixture(scope="module")
def nodes(ironic_on_mariadb: real_ironic.RealIronic) -> Iterator[dict[str, str]]:
    listed = provision_states.listed_states()
    fields = {"driver_info": {"takes_nmi": True}}
    made = new_nodes(ironic_on_mariadb, len(listed), resource_class=_RESOURCE_CLASS, fields=fields)
    yield dict(zip(listed, made, strict=True))
    Operator(ironic_on_mariadb).force_each(
        {node: {"provision_state": "available", "instance_uuid": None} for node in made}
    )


def test_the_real_ironic_has_no_other_states(ironic_environment) -> None:
    script = (
        "import json\n"
        "from ironic.common import state_machine, states\n"
        "machine = state_machine.machine\n"
        "names = [one for one in vars(states).values() if isinstance(one, str)]\n"
        "ways = [(state, transition.name) for state in machine.states\n"
        "        for transition in machine._transitions.get(state, {}).values()]\n"
        "print(json.dumps([sorted(machine.states), names, ways]))\n"
    )
    told = subprocess.run(
        [ironic_environment.python, "-c", script], check=True, capture_output=True
    )
    theirs, names, ways = json.loads(told.stdout)
    assert theirs == sorted(provision_states.listed_states())
    assert set(provision_states.states_of_no_node()) <= set(names)
    into = {
        (before, after)
        for before, after in ways
        if after in states.DEPLOYED and before not in states.DEPLOYED
    }
    assert into == {
        ("deploying", "active"),
        # Adopted: by an operator who says that it is deployed.
        ("adopting", "active"),
    }


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SHOWN)
def test_what_a_method_does(tmp_path, ironic_on_mariadb, operator, nodes, show, name) -> None:
    method = METHODS[name]
    expected = provision_states.table()[name]
    instances = {state: str(uuid.uuid4()) for state in nodes}
    forced = {
        node: {
            "provision_state": state,
            "target_provision_state": None,
            "power_state": states.POWER_ON,
            "target_power_state": None,
            "reservation": None,
            "last_error": None,
            "instance_uuid": instances[state] if method.carries else None,
            "instance_info": json.dumps(
                {"image_source": IMAGE.id, "image_type": "whole-disk"} if method.carries else {}
            ),
        }
        for state, node in nodes.items()
    }
    for node in nodes.values():
        operator.at_rest(node)
    operator.force_each(forced)
    patient = _config(tmp_path / "patient", ironic_on_mariadb, 240)
    hasty = _config(tmp_path / "hasty", ironic_on_mariadb, 2)

    def look(state: str) -> str:
        service = _Service(hasty if expected[state] == WAITS else patient)
        flavor = virt.Flavor("bm", extra_specs={"resources:CUSTOM_STATEFUL": "1"})
        node = nodes[state]
        instance = virt.Instance(instances[state], "one", flavor, host=service.host, node=node)
        try:
            return provision_states.outcome(
                method, service.driver, instance, lambda: list(service.sent)
            )
        finally:
            service.driver.cleanup_host()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        seen = dict(zip(nodes, threads.map(look, nodes), strict=True))
    assert seen == expected
    show([f"{len(seen)} cells of {name} are as in the table"])


def _config(directory: Path, ironic: real_ironic.RealIronic, seconds: int) -> Path:
    directory.mkdir()
    names = ("deploy_timeout", "unprovision_timeout", "rescue_timeout", "power_timeout")
    return write_conf(directory, ironic, protect_instances=False, **dict.fromkeys(names, seconds))
