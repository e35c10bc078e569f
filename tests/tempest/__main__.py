# SPDX-License-Identifier: Apache-2.0

"""Run the API tests of ironic-tempest-plugin against an Ironic: ``make tempest``.

What does not pass must be named in ``expected.toml``, with the reason; exit code 1: something
else does not pass, or something named there passes.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import tomllib
import unittest
from collections.abc import Iterator
from pathlib import Path

import real_ironic
from ironic_virt.testing.fake_ironic import Durations, FakeIronicServer
from tests.tempest.keystone import keystone

FAKE, REAL = "fake", "real"
SUITE = "ironic_tempest_plugin.tests.api."
_ACCOUNTS = """
- {username: admin, project_name: admin, password: secret, types: [admin], roles: [admin]}
- {username: system, system: all, password: secret, roles: [admin]}
"""
_CONFIGURATION = """
[DEFAULT]
log_file = tempest.log
[oslo_concurrency]
lock_path = {directory}
[auth]
use_dynamic_credentials = false
test_accounts_file = {directory}/accounts.yaml
[identity]
auth_version = v3
uri_v3 = {keystone}
[enforce_scope]
ironic = false
[service_available]
ironic = true
neutron = false
nova = false
glance = false
cinder = false
swift = false
[compute]
build_interval = {interval}
[baremetal]
driver = fake-hardware
"""


@contextlib.contextmanager
def _ironic(which: str) -> Iterator[str]:
    """Run one; its URL."""
    if which == REAL:
        with real_ironic.RealIronic(progress=print) as real:
            yield real.url
    else:
        with FakeIronicServer(durations=Durations()) as fake:
            yield fake.url


class _Result(unittest.TestResult):
    """What became of each test, by its name without the suite's; and why."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: set[str] = set()
        self.skips: dict[str, str] = {}
        self.broken: dict[str, str] = {}
        
    @staticmethod
    def _name(test):
        return test.id().replace(SUITE, "").partition("[")[0]

    def addSuccess(self, test):
        self.passed.add(self._name(test))

    def addSkip(self, test, reason):
        self.skips[self._name(test)] = reason

    def addFailure(self, test, error):
        self.broken[self._name(test)] = self._exc_info_to_string(error, test)

    addError = addFailure

    def addExpectedFailure(self, test, error):
        self.passed.add(self._name(test))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tempest", description=__doc__)
    parser.add_argument("--ironic", choices=(FAKE, REAL), default=FAKE)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        url = stack.enter_context(keystone(stack.enter_context(_ironic(arguments.ironic))))
        Path(directory, "accounts.yaml").write_text(_ACCOUNTS)
        configuration = Path(directory, "tempest.conf")
        configuration.write_text(_CONFIGURATION.format(directory=directory, keystone=url, interval=int(arguments.ironic == REAL)))
        os.environ |= {"TEMPEST_CONFIG_DIR": directory}
        os.chdir(directory)
        result = _Result()
        def flat(suite):
            for one in suite:
                if isinstance(one, unittest.TestSuite): yield from flat(one)
                else: yield one
        import ironic_tempest_plugin.tests.api as package
        pkg=Path(package.__file__).parent
        suite = unittest.TestLoader().discover(str(pkg), top_level_dir=str(pkg.parents[2]))
        unittest.TestSuite(t for t in flat(suite) if arguments.only in t.id()).run(result)
    import json
    json.dump({"passed": sorted(result.passed), "skips": result.skips, "broken": result.broken}, open(f"/tmp/w/env/tempest-{arguments.ironic}.json","w"), indent=1)
    print(len(result.passed), len(result.skips), len(result.broken))
    return 0

if __name__ == "__main__":
    sys.exit(main())
