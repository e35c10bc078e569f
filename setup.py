# SPDX-License-Identifier: Apache-2.0

"""Hand the build over to pbr, which reads setup.cfg and git."""

import setuptools

# Where nova-compute looks for its driver; pyproject.toml says what it is made from.
# pbr knows only packages that are called as their directories are.
DOOR = "nova.virt.ironic_virt"


class Distribution(setuptools.Distribution):
    """A distribution that holds the door, too."""

    def parse_config_files(self, *args, **kwargs):
        """Add it when pbr has found the other packages."""
        super().parse_config_files(*args, **kwargs)
        if DOOR not in self.packages:
            self.packages.append(DOOR)


setuptools.setup(setup_requires=["pbr>=6.1.1"], pbr=True, distclass=Distribution)
