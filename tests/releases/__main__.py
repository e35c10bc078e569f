# SPDX-License-Identifier: Apache-2.0

"""Try our wheel in releases of OpenStack: ``make releases``.

For each release: its Nova, Placement and Ironic and our wheel are installed under its upper
constraints, then the scenarios of tests/nova run against the real Ironic of that release, and
the fake Ironic is compared with it.  One line tells what came of each; exit code 1: something
failed.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.releases import catalogue, environments, record, scenarios
from tests.releases.catalogue import Release

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / ".envs" / "releases"
_LOOK = """
import json, platform
import nova.conf
from nova.virt import driver
has = {
    "[ironic] vnc_console_state_timeout": "vnc_console_state_timeout" in nova.conf.CONF.ironic,
    "ComputeDriver.process_instances_at_startup":
        hasattr(driver.ComputeDriver, "process_instances_at_startup"),
    "[compute] update_resources_max_workers":
        "update_resources_max_workers" in nova.conf.CONF.compute,
}
print(json.dumps({
    "python": platform.python_version(),
    "lacks": [name for name in has if not has[name]],
}))
"""
_API = """
import json
from ironic.api.controllers.v1 import versions
print(json.dumps(versions.max_version_string()))
"""


def main() -> int:
    """Try the releases that were asked for."""
    usual = catalogue.releases()
    known = usual | {catalogue.CANARY: catalogue.canary()}
    parser = argparse.ArgumentParser(prog="python -m tests.releases", description=__doc__)
    parser.add_argument(
        "release", nargs="*", help=f"of {', '.join(known)}; none: all but the last"
    )
    parser.add_argument("--threading", choices=["eventlet", "threads"], help="this one only")
    parser.add_argument("--no-conformance", action="store_true", help="leave the fake out")
    parser.add_argument("--only", help="these scenarios, in the form of pytest's -k")
    parser.add_argument(
        "--install",
        action="store_true",
        help="run nothing: print where each one's Nova is installed, and install it if it isn't",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (2)")
    parser.add_argument("--record", type=Path, help="write the results to this table (CSV)")
    parser.add_argument("--pytest", default="", help="more arguments for pytest")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.release if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.record and catalogue.CANARY in arguments.release:
        parser.error("what the canary meets is another thing each day, and is not recorded")
    if arguments.record and (arguments.only or arguments.no_conformance):
        parser.error("--record is for whole runs, not for --only and --no-conformance")
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    if arguments.install:
        for name in arguments.release or usual:
            print(_installed(known[name]))
        return 0
    tests, wheel = _built(DIRECTORY)
    results = []
    for name in arguments.release or usual:
        found = _tried(known[name], arguments, tests, wheel)
        results += found
        if arguments.record:
            record.write(arguments.record, found)
    print("\nReleases:", flush=True)
    for result in results:
        print(f"  {result}")
    return int(any(result.failed for result in results))


def _installed(release: Release) -> Path:
    """The environment with a release's Nova and any of our wheels."""
    found = environments.Environments(DIRECTORY, release, Path()).found_nova()
    return found or environments.Environments(DIRECTORY, release, _built(DIRECTORY)[1]).nova()


def _built(directory: Path) -> tuple[Path, Path]:
    """The tests without our package next to them, and our wheel."""
    tests = directory / "tests"
    shutil.rmtree(tests, ignore_errors=True)
    dist = directory / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (tests / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tests / name)
    # The version is git's.
    where = environments.run(["git", "-C", str(ROOT), "rev-parse", "--absolute-git-dir"])
    (tests / ".git").write_text(f"gitdir: {where}")
    environments.run([sys.executable, "-m", "build", "--wheel", "--outdir", str(dist), str(tests)])
    (tests / ".git").unlink()
    for left in ("ironic_virt", "build"):
        shutil.rmtree(tests / left, ignore_errors=True)
    for left in tests.glob("*.egg-info"):
        shutil.rmtree(left)
    return tests, next(dist.glob("*.whl"))


def _tried(
    release: Release, arguments: argparse.Namespace, tests: Path, wheel: Path
) -> list[record.Result]:
    """What came of a release: one result for each way of threading."""
    results = []
    modes = [mode for mode in release.threading if arguments.threading in (None, mode)]
    _say(release, f"installing Nova {release.nova} and Ironic {release.ironic}")
    try:
        made = environments.Environments(DIRECTORY, release, wheel)
        nova, ironic = made.nova(), made.ironic()
        found = json.loads(environments.run([str(nova / "bin" / "python"), "-c", _LOOK]))
        api = json.loads(environments.run([str(ironic / "bin" / "python"), "-c", _API]))
    except environments.Broken as error:
        _say(release, str(error))
        return [record.Result(release, mode, failed=["installation"]) for mode in modes]
    logs = DIRECTORY / "logs" / release.name
    runner = scenarios.Runner(nova, ironic, tests, logs, arguments.jobs)
    only = arguments.only or release.only
    more = shlex.split(arguments.pytest)
    for number, mode in enumerate(modes):
        began = time.monotonic()
        _say(release, f"running the scenarios ({mode}); see {os.path.relpath(logs)}")
        counts = scenarios.Counts()
        processes = scenarios.Counts()
        compared = scenarios.Counts()
        with ThreadPoolExecutor() as beside:
            # Most of the time these wait.
            if not only:
                _say(release, f"running Nova as processes ({mode})")
                deployed = beside.submit(runner.deployment, mode, more)
            if mode not in release.only_as_processes:
                counts += runner.nova(mode, only, more)
            if not number and not arguments.no_conformance and not only:
                _say(release, f"comparing the fake Ironic with {release.ironic} (API {api})")
                compared += runner.conformance(more)
            if not only:
                processes += deployed.result()
        result = record.Result(
            release,
            mode,
            api=api,
            python=found["python"],
            lacks=found["lacks"],
            scenarios=counts.passed,
            skipped=dict(counts.skipped),
            processes=processes.passed,
            without=processes.skipped.total(),
            questions=compared.passed,
            otherwise=compared.skipped.total(),
            again=counts.again + processes.again + compared.again,
            failed=counts.failed + processes.failed + compared.failed,
        )
        _say(release, f"{mode}: {result} after {time.monotonic() - began:.0f} s")
        for reason, count in (counts.skipped + processes.skipped).items():
            _say(release, f"{count} did not run: {reason}")
        for name in result.again:
            _say(release, f"passed at its second try: {name}")
        for name in result.failed:
            _say(release, f"failed: {name}")
        results.append(result)
    return results


def _say(release: Release, text: str) -> None:
    print(f"{release.name}: {text}", flush=True)


sys.exit(main())
