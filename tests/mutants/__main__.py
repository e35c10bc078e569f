# SPDX-License-Identifier: Apache-2.0

"""Put small faults into the code, one at a time, and see whether the tests find them.

    python -m tests.mutants [--for SECONDS] [--seed N] [--only PATTERN] [ROOM ...]

``rooms.toml`` says what is mutated, which tests concern it, and which mutants may survive.
The exit status is 1 if others do.  With ``--for`` mutants are tried in an order that the seed
gives, and after so many seconds a room no more of them are begun with.
"""

import argparse
import contextlib
import fnmatch
import io
import json
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path

from tests.mutants import rooms

CHECKOUT = Path(__file__).parents[2]
WORK = CHECKOUT / ".envs" / "mutated"

# Of an error's text and of a log line much can be changed that no test needs to see.
_LEFT = [r"^\s*LOG\.", r"^\s*raise\b", r'^\s*f?"[^"]* ']
_SLACK = 5.0
"""Seconds more than they need that tests may take, times :data:`_PATIENCE`."""
_PATIENCE = 6.0
"""So many times as long as they need they may take, too: the machine may be busy."""
_CHILDREN = str(2 * (os.cpu_count() or 1))
"""So many mutants are tried at the same time: some hang, and need no processor."""
_BESIDE = ["tools"]
"""What tests import in addition to the product."""
_BATCH = 60
"""So many mutants are tried between two looks at the clock."""
_SURVIVED = (0, 5, 33)
"""mutmut's codes: all tests passed, or there are none."""


def _prepare(room: rooms.Room) -> Path:
    """A directory in which mutmut mutates nothing but the room."""
    work = WORK / room.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in ("ironic_virt", "tests", *_BESIDE):
        (work / name).symlink_to(CHECKOUT / name)
    options = {
        "source_paths": ["ironic_virt"],
        "also_copy": _BESIDE,
        "only_mutate": room.mutate,
        "do_not_mutate": room.leave,
        "do_not_mutate_patterns": _LEFT,
        "pytest_add_cli_args_test_selection": room.tests,
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "timeout_constant": _SLACK,
        "timeout_multiplier": _PATIENCE,
    }
    # Numbers and lists of strings are the same in JSON and in TOML.
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    project = (CHECKOUT / "pyproject.toml").read_text()
    (work / "pyproject.toml").write_text("\n".join([project, "[tool.mutmut]", *lines, ""]))
    return work


def _make() -> None:
    """Write the mutants of the directory that we are in."""
    # It looks for its options in the current directory when it is imported.
    import mutmut.__main__ as mutmut
    from mutmut.configuration import reset_config

    reset_config()
    Path("mutants").mkdir()
    with contextlib.redirect_stdout(io.StringIO()):
        mutmut.copy_src_dir()
        mutmut.copy_also_copy_files()
        mutmut.create_mutants(os.cpu_count() or 1)


def _verdicts() -> dict[str, int | None]:
    """What became of each mutant: a code of mutmut's, ``None`` if it was not tried."""
    return {
        mutant: code
        for meta in sorted(Path("mutants").rglob("*.py.meta"))
        for mutant, code in json.loads(meta.read_text())["exit_code_by_key"].items()
    }


def _try(mutants: Collection[str]) -> None:
    """Run the tests on some mutants.

    :raises SystemExit: mutmut could not.
    """
    with open("log", "a") as log:
        run = subprocess.run(
            [sys.executable, "-m", "mutmut", "run", "--max-children", _CHILDREN, *mutants],
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if run.returncode:
        said = Path("log").read_text().replace("\r", "\n").splitlines()
        sys.exit("\n".join([*said[-40:], f"mutmut has failed; all of it is in {Path.cwd()}/log"]))


def _mutate(room: rooms.Room, args: argparse.Namespace) -> rooms.Outcome:
    """Try the mutants of a room, in its directory."""
    _make()
    made = [name for name in _verdicts() if fnmatch.fnmatchcase(rooms.function(name), args.only)]
    left = random.Random(args.seed).sample(made, len(made))
    batch = len(made) if args.seconds == math.inf else _BATCH
    until = time.monotonic() + args.seconds
    while left and time.monotonic() < until:
        _try(left[:batch])
        del left[:batch]
    tried = {
        mutant: code in _SURVIVED
        for mutant, code in _verdicts().items()
        if mutant in made and code is not None
    }
    return rooms.Outcome(len(made), tried)


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    known = rooms.read()
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(known)}; all if none is named")
    parser.add_argument("--for", type=float, dest="seconds", default=math.inf, help="of each room")
    parser.add_argument("--seed", type=int, default=0, help="of the order, with --for")
    parser.add_argument("--only", default="*", help="functions, such as sharding.claims.*")
    parser.add_argument("--show", action="store_true", help="the survivors that are listed, too")
    args = parser.parse_args()
    if wrong := [name for name in args.rooms if name not in known]:
        parser.error(f"no such room: {', '.join(wrong)}")
    failed = False
    for name in args.rooms or known:
        room = known[name]
        with contextlib.chdir(_prepare(room)):
            outcome = _mutate(room, args)
            new = rooms.unexplained(room, outcome.survivors)
            for mutant in outcome.survivors if args.show else new:
                subprocess.run([sys.executable, "-m", "mutmut", "show", mutant], check=False)
        needless = [] if args.only != "*" else list(rooms.needless(room, outcome))
        for pattern in needless:
            print(f"{name}: listed, and nothing of it survives: {pattern}")
        print(outcome.figures(room) + (f", {len(new)} of them not listed" if new else ""))
        failed = failed or bool(new or needless)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
