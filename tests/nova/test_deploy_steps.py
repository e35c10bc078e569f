# SPDX-License-Identifier: Apache-2.0

"""A flavor that asks for deploy steps, in the real Nova."""

import json
from typing import Any

from nova import utils

from tests.nova import figures
from tests.nova.deployment import Deployment

LEFT_OUT = {"interface": "deploy", "step": "deploy", "args": {}, "priority": 0}


class TestDeploySteps(Deployment, starts=True, driver=figures.OURS):
    """Ours; Nova's own driver knows none."""

    def boot_asking(self, steps: str) -> dict[str, Any]:
        """A server with its own flavor, which the newest API finds in order."""
        specs = {"extra_specs": {"ironic:deploy_steps": steps}}
        with utils.temporary_mutation(self.api, microversion="latest"):
            self.api.post_extra_spec(self.flavor_id, specs)
        return self.wait_for(self.boot("steps"), "ERROR")

    def test_they_reach_ironic_or_the_user_is_told_why_not(self) -> None:
        node = self.start_with_a_node()
        before = self.node(node)
        server = self.boot_asking('[{"interface": "bios"}]')
        # Nova cuts it somewhere behind that.
        assert "ironic:deploy_steps" in server["fault"]["message"]
        assert "of number 1" in server["fault"]["message"]
        after = self.node(node)
        assert (after["instance_uuid"], after["instance_info"]) == (None, {})
        assert after["provision_updated_at"] == before["provision_updated_at"]
        self.delete(server)
        # Fake hardware has but one step, and the flavor leaves it out.
        server = self.boot_asking(json.dumps([LEFT_OUT]))
        assert "No deploy steps returned" in self.told_by_the_events(server)
