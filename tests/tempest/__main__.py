# SPDX-License-Identifier: Apache-2.0

"""Run OpenStack's own API tests, those of ironic-tempest-plugin: ``make tempest``.

``expected.toml`` lists the tests that fail on the fake Ironic, with the reason.  Exit code 1:
another test fails, or a listed one passes.
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
import tomllib
import unittest
from collections.abc import Iterator
from pathlib import Path

import ironic_tempest_plugin

from ironic_virt.testing.fake_ironic import FakeIronicServer
from tests.tempest.keystone import keystone
from tests.tempest.outcome import Outcome, name, surprises
from tools import real_ironic

FAKE, REAL = "fake", "real"
EXPECTED = Path(__file__).with_name("expected.toml")

_ACCOUNTS = """
- {username: admin, project_name: admin, password: secret, types: [admin], roles: [admin]}
- {username: system, system: all, password: secret, roles: [admin]}
"""
_CONFIGURATION = """
[DEFAULT]
log_file = tempest.log
[oslo_concurrency]
lock_path = .
[auth]
use_dynamic_credentials = false
test_accounts_file = accounts.yaml
[identity]
auth_version = v3
uri_v3 = {keystone}
[enforce_scope]
ironic = false
[service_available]
ironic = true
neutron = false
[compute]
build_interval = {interval}
[baremetal]
driver = fake-hardware
enabled_hardware_types = fake-hardware
"""


def _tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from _tests(one)
        else:
            yield one


@contextlib.contextmanager
def _ironic(which: str) -> Iterator[str]:
    """Run one; its URL."""
    if which == REAL:
        with real_ironic.RealIronic(progress=print) as real:
            yield real.url
    else:
        with FakeIronicServer() as fake:
            yield fake.url


def run(which: str, only: str) -> tuple[Outcome, int]:
    """Run the tests whose names contain ``only``; what became of them, and how many there are."""
    outcome = Outcome()
    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.chdir(directory),
        _ironic(which) as ironic,
        keystone(ironic) as url,
    ):
        Path("accounts.yaml").write_text(_ACCOUNTS)
        # The fake is done with everything at once: there is nothing to wait for.
        interval = 1 if which == REAL else 0
        Path("tempest.conf").write_text(_CONFIGURATION.format(keystone=url, interval=interval))
        os.environ["TEMPEST_CONFIG_DIR"] = directory
        package = Path(ironic_tempest_plugin.__file__).parent
        found = unittest.TestLoader().discover(
            str(package / "tests" / "api"), top_level_dir=str(package.parent)
        )
        tests = [test for test in _tests(found) if only in name(test)]
        # Classes are set up once, so their tests have to stay together.
        unittest.TestSuite(tests).run(outcome)
    return outcome, len(tests)


def main() -> int:
    """Run them and compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.tempest", description=__doc__)
    parser.add_argument("--ironic", choices=(FAKE, REAL), default=FAKE)
    parser.add_argument("--only", default="", help="tests whose names contain this")
    arguments = parser.parse_args()
    expected: list[str] = []
    if arguments.ironic == FAKE and not arguments.only:
        reasons = tomllib.loads(EXPECTED.read_text()).values()
        expected = [pattern for reason in reasons for pattern in reason["tests"]]
    began = time.monotonic()
    outcome, count = run(arguments.ironic, arguments.only)
    wrong = list(surprises(outcome, expected))
    for line in wrong:
        print(line)
    passed, broken = len(outcome.passed), len(outcome.broken)
    # In pytest's form, which CI looks for.
    print(
        f"==== {arguments.ironic} Ironic: {passed} passed, {broken} did not pass,"
        f" {count - passed - broken} skipped, {len(wrong)} surprises"
        f" in {time.monotonic() - began:.0f}s ===="
    )
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
