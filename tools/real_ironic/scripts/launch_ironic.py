# SPDX-License-Identifier: Apache-2.0

"""Run a command of Ironic's, if wanted with a lower newest API version.

Ironic lowers its newest API version only together with the versions of its
objects, and only to those of a release.  Here a release is added to its table
that equals the newest in everything but the API version, so that a server may
speak, say, 1.51 and stays itself in all else.

Fake hardware fails where a node says so: see ``fake_hardware.py``.

Runs with the Python of Ironic's virtualenv:
``launch_ironic.py MAX_API_VERSION|latest COMMAND [options of that command]``, where the command
is ``singleprocess``, which is all in one, ``api`` or ``conductor``.
"""

import importlib
import sys

PINNED_RELEASE = "limited-api"


def limit_api_version(max_api_version: str) -> None:
    """Add the release that ``[DEFAULT] pin_release_version`` then names.

    Must come before Ironic registers its options, which copy the table.
    """
    mappings = importlib.import_module("ironic.common.release_mappings")
    release = dict(mappings.RELEASE_MAPPING["master"], api=max_api_version)
    mappings.RELEASE_MAPPING[PINNED_RELEASE] = release
    mappings.RELEASE_VERSIONS.append(PINNED_RELEASE)
    mappings.RELEASE_VERSIONS_DESCS.append((PINNED_RELEASE, "newest, with a lower API version"))


def main() -> None:
    max_api_version, command, *arguments = sys.argv[1:]
    if max_api_version != "latest":
        limit_api_version(max_api_version)
    sys.argv = [f"ironic-{command}", *arguments]
    # Chooses threads or eventlet, which must come before any driver is imported.
    try:
        ironic = importlib.import_module(f"ironic.command.{command}")
    except ModuleNotFoundError:
        # Where it was up to 2025.1.
        ironic = importlib.import_module(f"ironic.cmd.{command}")
    importlib.import_module("fake_hardware").extend_fake_hardware()
    ironic.main()


if __name__ == "__main__":
    main()
